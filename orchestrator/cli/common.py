"""What every verb shares: global flags, exit codes, and how a user's mistake is told."""

from __future__ import annotations

import enum
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Exit(enum.IntEnum):
    """Exit codes. 2 and 3 belong to replay and compare; 130 and 143 follow the shell's convention."""

    DONE = 0
    FAILED = 1
    DIVERGED = 2
    INCOMPATIBLE = 3
    INTERRUPTED = 130
    TERMINATED = 143


EXIT_RUNS = (
    "Exit codes: 0 it completed, whichever tasks passed; 1 usage or infrastructure error (also when a run ended in "
    "error; the report is written), or stopped early; 2 a replay diverged from its recording; 130 Ctrl-C; 143 SIGTERM "
    "or SIGHUP."
)
EXIT_REPLAYS = (
    "Exit codes: 0 every recording replayed and passed; 1 usage or infrastructure error, a replayed task did not pass, "
    "or nothing could be replayed; 2 a replay diverged from its recording; 130 Ctrl-C; 143 SIGTERM or SIGHUP."
)
EXIT_COMPARES = (
    "Exit codes: 0 done, whatever the verdict; 1 usage or infrastructure error; 3 the sides measured different suites, "
    "or different versions of one; 130 Ctrl-C; 143 SIGTERM."
)
EXIT_SERVES = "Exit codes: 1 usage or infrastructure error; 130 Ctrl-C; 143 SIGTERM or SIGHUP. It never ends by itself."
EXIT_LAB_OFFLINE = (
    "Exit codes: 0 every run that was not skipped passed; 1 usage or infrastructure error, a run did not pass, or all "
    "were skipped; 130 Ctrl-C; 143 SIGTERM or SIGHUP."
)
EXIT_LAB_LIVE = (
    "Exit codes: 0 it completed, whichever fixtures passed; 1 usage or infrastructure error (also when a run ended in "
    "error; the report is written), or stopped early, such as by a budget; 130 Ctrl-C; 143 SIGTERM or SIGHUP."
)
EXIT_READS = "Exit codes: 0 done; 1 usage or infrastructure error; 130 Ctrl-C; 143 SIGTERM."


class Common:
    """The global flags, accepted before or after the command. A plain class, since every start pays for it."""

    def __init__(self) -> None:
        self.json = False
        self.store: str | None = None
        self.log_format = "console"
        self.color = True
        self.verbosity = 0
        """-1 quiet, 0 normal, 1 verbose."""


COMMON = Common()
"""Filled once by the callback of the application before a verb runs, and only read after that."""


def not_ours(suite: Path, runs: str, *, sandboxed: bool) -> str:
    """The warning about a suite that is somebody else's: its verifiers and *runs* are code."""
    confined = ", confined by bwrap" if sandboxed else " and are not sandboxed"
    return (
        f"warning: {suite} is not a bundled suite. Its verifier commands and the {runs} run with your privileges"
        f"{confined}. Only run suites you trust."
    )


def print_notice(text: str) -> None:
    """One line for the person at the terminal: stderr, so that stdout stays data."""
    if COMMON.verbosity >= 0:
        _print_line(text)


def print_error(text: str) -> None:
    """A user's mistake or a failure: stderr, whatever the verbosity."""
    _print_line(f"evalctl: {text}")


def _print_line(text: str) -> None:
    from store.secrets.scanner import mask_secrets

    try:
        print(mask_secrets(text), file=sys.stderr, flush=True)  # noqa: T201 - the command line's own output
    except OSError:
        # a terminal that has been closed, or `2>&1 | head`: nobody listens, which is no reason to give up a sweep
        from orchestrator.cli.streams import give_up

        give_up(2)


def print_data(text: str) -> None:
    """Data: stdout, without what has the shape of a secret.

    Raises:
        OutputLost, BrokenPipeError: see `streams.guard_printing`.
    """
    from orchestrator.cli.streams import guard_printing
    from store.secrets.scanner import mask_secrets

    with guard_printing():
        print(mask_secrets(text), flush=True)  # noqa: T201 - the command line's own output


def ask_confirmation(question: str) -> bool:
    """Ask the person at the terminal; Ctrl-C is no answer, and ends the command as anywhere else.

    Raises:
        typer.Exit: with 130.
    """
    import typer

    try:
        return typer.confirm(question, err=True)
    except typer.Abort as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise typer.Exit(Exit.INTERRUPTED) from error
        raise
