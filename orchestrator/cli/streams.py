"""Standard streams that are closed, broken, or on a full disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from store.errors import EvalctlError


class OutputLost(EvalctlError):
    """Standard output can no longer be written, for example because its disk is full."""


def open_missing_streams() -> None:
    """Open /dev/null for every standard stream that is closed.

    Otherwise the next file that is opened would get its descriptor, and `print` would write into that file.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            silence_stream(number)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115 - open as long as the process


def restart_in_utf8() -> None:
    """Replace this process by the same command with UTF-8 file names, as fixtures have them; does not return.

    Needed under an old locale, or without one and PYTHONUTF8=0. Output keeps the encoding of the locale.
    """
    environment = dict(os.environ)  # noqa: TID251 - handed on as it is
    environment["PYTHONIOENCODING"] = f"{sys.stdout.encoding}:backslashreplace"
    os.execve(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]], environment)  # noqa: S606 - itself


@contextmanager
def guard_printing() -> Iterator[None]:
    """Turn a failed write to stdout inside the block into one error.

    Raises:
        OutputLost: stdout cannot be written, for example because its disk is full.
        BrokenPipeError: the reader of the pipe has gone.
    """
    try:
        yield
    except OSError as error:
        silence_stream(1)
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputLost(f"standard output cannot be written: {error.strerror}") from error


def silence_stream(number: int) -> None:
    """Point the descriptor *number* at /dev/null, so that later writes and the final flush do not fail."""
    nothing = os.open(os.devnull, os.O_RDWR)
    if nothing != number:
        os.dup2(nothing, number)
        os.close(nothing)
