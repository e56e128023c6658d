"""The entry point of the command `evalctl`; everything else is in `app.py`, which is imported only when needed."""

from __future__ import annotations

import gc
import sys

from orchestrator.version import __version__

GARBAGE = 5_000
"""After how many new objects cycles are looked for. By default 700, which is a tenth of what a short command takes; ten
times as many leave a long sweep larger by what lies about."""


def main() -> None:
    """Run `evalctl` and leave with its exit code."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        from orchestrator.cli.streams import open_missing_streams

        open_missing_streams()
    if sys.getfilesystemencoding() != "utf-8":
        from orchestrator.cli.streams import start_again_in_utf8

        start_again_in_utf8()
    if sys.argv[1:] == ["--version"]:  # the quickest question gets the quickest answer: no imports
        sys.stdout.write(f"evalctl {__version__}\n")
        return
    gc.set_threshold(GARBAGE, 20, 20)
    from orchestrator.cli.app import run_command

    sys.exit(run_command(sys.argv[1:]))


if __name__ == "__main__":
    main()
