"""The command in a process that may neither reach a network nor start another process: `python alone.py ARGUMENTS`."""

import os
import sys
from pathlib import Path

FORBIDDEN = {
    "socket.connect",
    "socket.bind",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "subprocess.Popen",
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "pty.spawn",
}


def forbid(event, arguments):
    if event in FORBIDDEN:
        # not an exception, which somebody might catch
        sys.stderr.write(f"FORBIDDEN: {event} {arguments!r}\n")
        sys.stderr.flush()
        os._exit(99)


sys.addaudithook(forbid)
sys.path.insert(0, str(Path(__file__).parents[2]))

from orchestrator.cli.main import main  # noqa: E402 - after the hook

main()
