"""`make peers`: installs every foreign program, then runs the tests against those that could be had.

    python -m tests.peers [arguments for pytest]

A peer that cannot be downloaded is told loudly and its tests are left out; with it there, nothing may be skipped.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping

import attrs

from tests.peers import aimock, bubblewrap, litellm
from tests.peers.driver import ROOT


@attrs.frozen(kw_only=True)
class Peer:
    """A foreign program: how it is installed, and which file tests against it."""

    install: Callable[[], str | None]
    tests: str


PEERS: Mapping[str, Peer] = {
    "bubblewrap": Peer(install=bubblewrap.install, tests="tests/peers/test_bubblewrap.py"),
    "aimock": Peer(install=aimock.install, tests="tests/peers/test_aimock.py"),
    "litellm": Peer(install=litellm.install, tests="tests/peers/test_litellm.py"),
}


def main() -> None:
    missing = {}
    for name, peer in PEERS.items():
        why = peer.install()
        if why is None:
            print(f"peer {name}: installed", flush=True)  # noqa: T201 - for the one who waits
        else:
            missing[name] = why
    left_out = [f"--ignore={PEERS[name].tests}" for name in missing]
    code = 0
    if len(missing) < len(PEERS):
        argv = [sys.executable, "-m", "pytest", "-m", "peers", *left_out, *sys.argv[1:]]
        code = subprocess.run(argv, cwd=ROOT, check=False).returncode
    for name, why in missing.items():  # last, where it is read
        print(f"PEER MISSING: the tests against {name} did not run: {why}", file=sys.stderr)  # noqa: T201
    sys.exit(code)


if __name__ == "__main__":
    main()
