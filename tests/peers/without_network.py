"""Runs the command with every way to another machine closed: `python -m tests.peers.without_network ARGUMENTS`.

An audit hook cannot be taken off again, and sees what any library does: a connection, a name looked up, a datagram.
"""

from __future__ import annotations

import sys

OUTWARD = ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.bind", "socket.getaddrinfo", "socket.gethostby")
NOT_ALLOWED = 97


def watch(event: str, _arguments: tuple[object, ...]) -> None:
    if event.startswith(OUTWARD):
        # not an exception, which somebody might catch
        sys.stderr.write(f"touched the network: {event}\n")
        sys.stderr.flush()
        import os

        os._exit(NOT_ALLOWED)


if __name__ == "__main__":
    sys.addaudithook(watch)
    from orchestrator.cli.main import main

    main()
