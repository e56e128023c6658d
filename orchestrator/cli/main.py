"""The entry point of the command `evalctl`; everything else is in `app.py`, which is imported only when needed."""

from __future__ import annotations

import gc
import sys

from orchestrator.version import __version__

GC_THRESHOLD = 5_000
"""GC generation-0 threshold: new objects between two collections. Python's 700 costs a short command a tenth of its
time; ten times as many let a long sweep grow by uncollected objects."""


def main() -> None:
    """Run `evalctl` and exit with its code."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        from orchestrator.cli.streams import open_missing_streams

        open_missing_streams()
    if sys.getfilesystemencoding() != "utf-8":
        from orchestrator.cli.streams import restart_in_utf8

        restart_in_utf8()
    if sys.argv[1:] == ["--version"]:  # without imports, because it is asked most often
        sys.stdout.write(f"evalctl {__version__}\n")
        return
    gc.set_threshold(GC_THRESHOLD, 20, 20)
    from orchestrator.cli.app import run_command

    sys.exit(run_command(sys.argv[1:]))


if __name__ == "__main__":
    main()
