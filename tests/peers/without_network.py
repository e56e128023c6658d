"""Runs the command with every way to another machine closed: `python -m tests.peers.without_network ARGUMENTS`; with
`--alone` as the first of them, it may start no other process either.

An audit hook cannot be taken off again, and sees what any library does: a connection, a name looked up, a datagram.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

OUTWARD = ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.bind", "socket.getaddrinfo", "socket.gethostby")
STARTING = ("subprocess.Popen", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn")
NOT_ALLOWED = 97


def forbidding(events: tuple[str, ...]) -> Callable[[str, tuple[object, ...]], None]:
    """A hook that ends the process at the first of *events*, which are beginnings of names."""

    def watch(event: str, _arguments: tuple[object, ...]) -> None:
        if event.startswith(events):
            # not an exception, which somebody might catch
            sys.stderr.write(f"NOT ALLOWED: {event}\n")
            sys.stderr.flush()
            os._exit(NOT_ALLOWED)

    return watch


if __name__ == "__main__":
    alone = sys.argv[1:2] == ["--alone"]
    if alone:
        del sys.argv[1]
    sys.addaudithook(forbidding(OUTWARD + STARTING if alone else OUTWARD))
    from orchestrator.cli.main import main

    main()
