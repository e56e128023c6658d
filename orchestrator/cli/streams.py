"""The standard streams, whatever the command was started with: closed, broken, or on a disk that is full."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from store.errors import EvalctlError


class OutputLost(EvalctlError):
    """Standard output takes nothing more."""


def open_missing_streams() -> None:
    """Put /dev/null in the place of every standard stream that is closed.

    Otherwise the next file to be opened would get its number, and `print` would send to stdout what is meant for
    stderr.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            give_up(number)
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115 - a descriptor, open as long as the process


def start_again_in_utf8() -> None:
    """Become this same command with file names in UTF-8, which those of fixtures and models are; does not return.

    Needed under an old locale, or under none with PYTHONUTF8=0. What is printed stays in the encoding of the locale.
    """
    environment = dict(os.environ)  # noqa: TID251 - handed on as it is
    environment["PYTHONIOENCODING"] = f"{sys.stdout.encoding}:backslashreplace"
    os.execve(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]], environment)  # noqa: S606 - itself


@contextmanager
def guard_printing() -> Iterator[None]:
    """Around whatever writes to stdout.

    Raises:
        OutputLost: it takes nothing more, for example because its disk is full.
        BrokenPipeError: nobody reads any more.
    """
    try:
        yield
    except OSError as error:
        give_up(1)
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputLost(f"standard output cannot be written: {error.strerror}") from error


def give_up(number: int) -> None:
    """Send what is still written to the stream of this number nowhere; its buffer too, when the process ends."""
    nothing = os.open(os.devnull, os.O_RDWR)
    if nothing != number:
        os.dup2(nothing, number)
        os.close(nothing)
