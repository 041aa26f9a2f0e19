"""Runs the tests of this repository with one server, and counts."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import limits

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOGS = ROOT / "target" / "servers"
# No suite takes so long, not even on a busy machine.
SECONDS_MAX = 1_800

# The test binaries, by package and target, which a plain `cargo test` builds too.
CORE = [("mongo-lease", "mongo_lease"), ("mongo-lease", "it"), ("mongo-lease-migrations", "it")]
SECURITY = [("mongo-lease-security", "it")]


@dataclasses.dataclass
class Count:
    """The outcome of one suite."""

    passed: int = 0
    failed: list = dataclasses.field(default_factory=list)
    # Failed tests with the server's limit that explains each.
    limited: dict = dataclasses.field(default_factory=dict)
    # Tests that failed beside others and passed alone. A slow server, as in Wine, makes tests late that measure time.
    alone: list = dataclasses.field(default_factory=list)
    # What tests left out on this server, in their own words.
    notices: list = dataclasses.field(default_factory=list)
    # What went wrong outside of single tests: a process that crashed, or did not end.
    problem: str = ""

    def is_good(self):
        return not self.failed and not self.problem and self.passed + len(self.limited) > 0

    def __str__(self):
        text = f"{self.passed} of {self.passed + len(self.failed) + len(self.limited)}"
        if self.alone:
            text += f" ({len(self.alone)} alone)"
        return f"{text}, {self.problem}" if self.problem else text


def build():
    """Builds as a plain `cargo test` does, and returns the path of each test binary by package and target."""
    lines = _cargo("test", "--locked", "--no-run")
    found = {}
    for line in lines:
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            folder = pathlib.Path(message["manifest_path"]).parent
            found[_package(folder), message["target"]["name"]] = (message["executable"], folder)
    return found


def build_torture():
    """Builds the torture suite, and returns its path."""
    messages = [json.loads(line) for line in _cargo("build", "--locked", "-p", "torture")]
    return next(message["executable"] for message in messages
                if message.get("executable") and message["target"]["name"] == "torture")


def run_tests(suite, wanted, binaries, version, mongod, modules=()):
    """Runs test binaries one after the other, and adds up their counts. `modules` restricts the tests of `it`."""
    count = Count()
    unmatched = set(modules)
    for package, target in wanted:
        binary, folder = binaries[package, target]
        log = _log(version, f"{suite}-{package}-{target}")
        chosen = []
        if modules:
            # The controls show that the comparison can fail; one server is enough for that.
            skipped = ["--skip", "agreement::controls", "--skip", "agreement::permits::controls"]
            # The library's integration tests are most of all; the migration's take seconds.
            is_library = (package, target) == ("mongo-lease", "it")
            chosen = [f"{module}::" for module in modules] if is_library else skipped
        problem = _watch([binary, "--show-output", *chosen], folder, log, mongod)
        text = log.read_text(errors="replace")
        count.notices += sorted(set(re.findall(r"^MongoDB \d+\.\d+ .+: .+$", text, re.M)))
        results = re.findall(r"^test result: .*?(\d+) passed; (\d+) failed; (\d+) ignored", text, re.M)
        count.passed += sum(int(passed) for passed, _failed, _ignored in results)
        # The list at the end, in which other output cannot stand.
        listed = text.rsplit("\nfailures:\n", 1)[1] if "\nfailures:\n" in text else ""
        names = re.findall(r"^    (\S+)$", listed, re.M)
        for name in names:
            test = f"{package} {target}: {name}"
            why = limits.reason(version, test)
            if why is not None:
                count.limited[test] = why
            elif _passes_alone(binary, folder, name, version, suite, mongod):
                count.passed += 1
                count.alone.append(test)
            else:
                count.failed.append(test)
        unmatched -= {module for module in modules if re.search(rf"^test {module}::", text, re.M)}
        if not results:
            count.problem = f"{package} {target}: {problem or 'no result'}, see {log}"
        elif int(results[-1][1]) != len(names):
            count.problem = f"{package} {target}: the list of failed tests is incomplete, see {log}"
        elif problem and not names:
            count.problem = f"{package} {target}: {problem}, see {log}"
    if unmatched:
        count.problem = f"no test is in {', '.join(sorted(unmatched))}"
    return count


def _passes_alone(binary, folder, name, version, suite, mongod):
    """Runs one failed test again, with nothing beside it."""
    log = _log(version, f"{suite}-alone-{name.replace('::', '-')}")
    problem = _watch([binary, "--show-output", "--exact", name], folder, log, mongod)
    return not problem and "1 passed; 0 failed" in log.read_text(errors="replace")


def run_torture(program, seconds, version, mongod):
    """Runs the torture suite; its exit code says whether it found a violation."""
    log = _log(version, "torture")
    command = [program, "--seconds", str(seconds), "--seed", "1", "--nemeses", "all"]
    problem = _watch(command, ROOT, log, mongod)
    if problem:
        return Count(problem=f"{problem}, see {log}")
    return Count(passed=1)


@contextlib.contextmanager
def surroundings(mongod):
    """Keeps Wine's own processes alive while the suites run, where the server needs Wine.

    They inherit the files of the process that starts them, so no test may be the first. They end by themselves.
    """
    if not (mongod.parent / "wine.sh").exists():
        yield
        return
    script = 'here=$1; . "$here/wine.sh"; exec "$here/root/usr/lib/wine/wine64" cmd'
    keeper = subprocess.Popen(
        ["sh", "-c", script, "wine", mongod.parent], stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        subprocess.run([mongod, "--version"], stdout=subprocess.DEVNULL, timeout=60, check=True)
        yield
    finally:
        keeper.stdin.close()
        keeper.wait(60)


def _cargo(*arguments):
    command = ["cargo", *arguments, "--message-format=json-render-diagnostics"]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def _package(folder):
    manifest = (folder / "Cargo.toml").read_text()
    return re.search(r'^\[package\][^\[]*?^name = "(.+?)"', manifest, re.M | re.S).group(1)


def _log(version, name):
    LOGS.joinpath(version).mkdir(parents=True, exist_ok=True)
    return LOGS / version / f"{name}.log"


def _watch(command, folder, log, mongod):
    """Runs one program with its output in a file. Returns what was wrong with its end, or an empty text."""
    environment = dict(os.environ, MONGO_LEASE_MONGOD=str(mongod))
    # The shared server has to be the one that is being tested.
    environment.pop("MONGO_LEASE_TESTBED_URI", None)
    environment.pop("MONGODB_URI", None)
    started = time.monotonic()
    with open(log, "wb") as output:
        running = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.STDOUT)
        try:
            code = running.wait(SECONDS_MAX)
            problem = f"exit code {code}" if code else ""
        except subprocess.TimeoutExpired:
            problem = f"no end after {SECONDS_MAX} s"
        finally:
            running.kill()
            running.wait()
    name = log.relative_to(LOGS)
    print(f"  {name}: {problem or 'passed'}, {time.monotonic() - started:.0f} s", flush=True)
    sys.stdout.flush()
    return problem
