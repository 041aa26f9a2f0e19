"""The folder in which servers are kept. Its layout and its lock are those of tests/testbed/src/find."""

import contextlib
import fcntl
import os
import pathlib
import shutil
import uuid


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME", "")
    base = pathlib.Path(base) if os.path.isabs(base) else pathlib.Path.home() / ".cache"
    return base / "mongo-lease"


@contextlib.contextmanager
def turn(cache):
    """Holds the lock of the cache: one process prepares a server, and the others wait."""
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / ".lock", "a+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def work_folder(cache):
    """A folder on the cache's file system, removed at the end. The testbed removes it an hour after a crash."""
    work = cache / f".fetch-{uuid.uuid4().hex}"
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
