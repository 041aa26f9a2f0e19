"""Tests that fail on a server because of the server alone, each with its reason.

A test belongs here only if nothing else can be asserted in it on that server; most tests that depend on the server's
version ask for it, and assert what that server does.
"""

_NO_TLS = "mongod for Windows cannot load the test's private key in Wine (CryptDecodeObjectEx), so it starts without TLS only"

LIMITS = {
    "7.0.28": {
        "mongo-lease-security it: ": _NO_TLS,
        "mongo-lease-migrations it: privileges::": _NO_TLS,
    },
}


def reason(version, test):
    """Why this test fails on this server; `None` if it has to pass."""
    known = LIMITS.get(version, {})
    return next((why for prefix, why in known.items() if test.startswith(prefix)), None)
