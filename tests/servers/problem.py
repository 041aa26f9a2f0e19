"""The reason why a server cannot be prepared on this machine."""

import subprocess


class NotRun(Exception):
    """The server is not there, so nothing was tested. The text says why, and what to do."""


def run(command, doing, seconds=900, **options):
    """Runs a program silently and returns its output. `NotRun` has the end of it if the program fails."""
    try:
        done = subprocess.run(
            [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds, **options)
    except FileNotFoundError as error:
        raise NotRun(f"{doing}: the program {error.filename} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise NotRun(f"{doing}: no end after {seconds} s") from error
    if done.returncode != 0:
        end = "\n".join(done.stdout.strip().splitlines()[-12:])
        raise NotRun(f"{doing}: exit code {done.returncode}\n{end}")
    return done.stdout
