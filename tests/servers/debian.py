"""Debian packages, unpacked into a folder. Nothing is installed, and apt's own state is not touched.

apt works on a configuration and lists of its own here. Mirrors and keys are those that the machine's apt
uses, and apt checks each package against the signed lists before this program sees it.
"""

import hashlib
import os
import platform

from problem import NotRun, run

# The lists have the hashes of the packages; descriptions, icons and hooks of other programs are left out.
CONFIGURATION = """\
Dir::State "{folder}/state";
Dir::State::status "{status}";
Dir::Cache "{folder}/cache";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Architecture "amd64";
APT::Architectures:: "amd64";
APT::Install-Recommends "false";
APT::Get::AllowUnauthenticated "false";
APT::Sandbox::User "";
Acquire::Languages "none";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear Acquire::IndexTargets::deb::DEP-11;
#clear Acquire::IndexTargets::deb::DEP-11-icons-small;
#clear Acquire::IndexTargets::deb::DEP-11-icons;
#clear Acquire::IndexTargets::deb::DEP-11-icons-hidpi;
"""


class Packages:
    """Packages of one suite, from the mirror that this machine's apt uses for Debian."""

    def __init__(self, suite, folder):
        if platform.machine() != "x86_64":
            raise NotRun(f"the packages are for x86_64, and this machine is {platform.machine()}")
        self.folder = folder
        for part in ["state/lists/partial", "cache/archives/partial", "debs"]:
            (folder / part).mkdir(parents=True)
        status = "/var/lib/dpkg/status"
        (folder / "apt.conf").write_text(CONFIGURATION.format(folder=folder, status=status))
        key = "/usr/share/keyrings/debian-archive-keyring.gpg"
        signed = f"[signed-by={key}] " if os.path.exists(key) else ""
        (folder / "sources.list").write_text(f"deb {signed}{mirror()} {suite} main\n")
        self._apt("update", doing=f"apt-get update ({suite}, in a folder of its own)")

    def fetch(self, name, sha256):
        """Fetches one package, and checks its hash as well."""
        self._apt("download", name, doing=f"apt-get download {name}", cwd=self.folder / "debs")
        found = list((self.folder / "debs").glob(f"{name}_*.deb"))
        if len(found) != 1:
            raise NotRun(f"apt-get download {name}: it left {len(found)} packages")
        actual = hashlib.sha256(found[0].read_bytes()).hexdigest()
        if actual != sha256:
            raise NotRun(f"{found[0].name} has the sha256 {actual}, and not {sha256}")

    def fetch_all(self, *names):
        """Fetches packages, and whatever they need that is not installed on this machine."""
        asked = ["install", "--simulate", "--quiet=2", *names]
        plan = self._apt(*asked, doing=f"apt-get install --simulate {' '.join(names)}")
        needed = {line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")}
        # A package that is installed is fetched all the same: its files have to be in one tree with the others.
        needed = sorted(needed.union(names))
        self._apt("download", *needed, doing="apt-get download", cwd=self.folder / "debs")

    def unpack(self, root):
        for package in sorted((self.folder / "debs").glob("*.deb")):
            run(["dpkg", "-x", package, root], f"dpkg -x {package.name}")

    def _apt(self, *arguments, doing, **options):
        command = ["apt-get", "-c", self.folder / "apt.conf", *arguments]
        return run(command, doing, env=dict(os.environ, LC_ALL="C"), **options)


def mirror():
    """The address of the Debian archive, as the machine's apt has it."""
    asked = ["apt-get", "indextargets", "--format", "$(CREATED_BY)|$(REPO_URI)|$(RELEASE)"]
    targets = [line.split("|") for line in run(asked, "apt-get indextargets").splitlines()]
    for kind, address, suite in targets:
        # Suites such as bookworm-security are in archives of their own.
        if kind == "Packages" and address.rstrip("/").endswith("/debian") and "-" not in suite:
            return address
    raise NotRun("apt on this machine has no mirror of Debian (an address that ends in /debian)")
