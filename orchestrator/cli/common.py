"""Global flags, exit codes, and printing: shared by every verb."""

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
    "Exit codes: 0 completed, whichever tasks passed; 1 usage or infrastructure error (also if a run ended in error; "
    "the report is written), or stopped early; 2 a replay diverged from its recording; 130 Ctrl-C; 143 SIGTERM or "
    "SIGHUP."
)
EXIT_ASKS = (
    "Exit codes: 0 completed, whichever tasks passed; 1 usage or infrastructure error (also if a run ended in error; "
    "the report is written), or stopped early; 130 Ctrl-C; 143 SIGTERM or SIGHUP."
)
EXIT_REPLAYS = (
    "Exit codes: 0 every recording replayed and passed; 1 usage or infrastructure error, a replayed task did not pass, "
    "or nothing could be replayed; 2 a replay diverged from its recording; 130 Ctrl-C; 143 SIGTERM or SIGHUP."
)
EXIT_COMPARES = (
    "Exit codes: 0 done, whatever the verdict; 1 usage or infrastructure error; 3 the sides measured different suites "
    "or versions; 130 Ctrl-C; 143 SIGTERM."
)
EXIT_SERVES = "Exit codes: 1 usage or infrastructure error; 130 Ctrl-C; 143 SIGTERM or SIGHUP. Runs until a signal."
EXIT_LAB_OFFLINE = (
    "Exit codes: 0 every run passed, apart from skipped ones; 1 usage or infrastructure error, a run did not pass, or "
    "all were skipped; 130 Ctrl-C; 143 SIGTERM or SIGHUP."
)
EXIT_LAB_LIVE = (
    "Exit codes: 0 completed, whichever fixtures passed; 1 usage or infrastructure error (also if a run ended in "
    "error; the report is written), or stopped early, for example by a budget; 130 Ctrl-C; 143 SIGTERM or SIGHUP."
)
EXIT_READS = "Exit codes: 0 done; 1 usage or infrastructure error; 130 Ctrl-C; 143 SIGTERM."


class Common:
    """The global flags, accepted before or after the command. A plain class, because attrs would slow every start."""

    def __init__(self) -> None:
        self.json = False
        self.store: str | None = None
        self.log_format = "console"
        self.color = True
        self.verbosity = 0
        """-1 quiet, 0 normal, 1 verbose."""


COMMON = Common()
"""Set once by the callback of the application, before the verb runs; read-only after that."""


def format_trust_warning(suite: Path, runs: str, *, sandboxed: bool) -> str:
    """Format the warning that a suite which is not bundled runs code: its verifiers, and *runs* (a plural noun)."""
    confined = ", confined by bwrap" if sandboxed else " and are not sandboxed"
    return (
        f"warning: {suite} is not a bundled suite. Its verifier commands and the {runs} run with your privileges"
        f"{confined}. Only run suites you trust."
    )


def print_notice(text: str) -> None:
    """Print a notice on stderr, unless --quiet: stdout is for data."""
    if COMMON.verbosity >= 0:
        _print_line(text)


def print_error(text: str) -> None:
    """Print an error on stderr, whatever the verbosity."""
    _print_line(f"evalctl: {text}")


def _print_line(text: str) -> None:
    from store.secrets.scanner import mask_secrets

    try:
        print(mask_secrets(text), file=sys.stderr, flush=True)  # noqa: T201 - the command line's own output
    except OSError:
        # a closed terminal, or `2>&1 | head`: the sweep goes on without messages
        from orchestrator.cli.streams import silence_stream

        silence_stream(2)


def print_data(text: str) -> None:
    """Print data on stdout, with everything that looks like a secret masked.

    Raises:
        OutputLost, BrokenPipeError: see `streams.guard_printing`.
    """
    from orchestrator.cli.streams import guard_printing
    from store.secrets.scanner import mask_secrets

    with guard_printing():
        print(mask_secrets(text), flush=True)  # noqa: T201 - the command line's own output


def print_json(document: object, *, indent: int | None = None, compact: bool = False) -> None:
    """Print *document* as JSON on stdout: the one way in which verbs do so. See `text.format_json`."""
    from orchestrator.text import format_json

    print_data(format_json(document, indent=indent, compact=compact))


def ask_confirmation(question: str) -> bool:
    """Ask *question* at the terminal and return whether the answer is yes. Ctrl-C ends the command.

    Raises:
        typer.Exit: with 130, after Ctrl-C.
    """
    import typer

    try:
        return typer.confirm(question, err=True)
    except typer.Abort as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise typer.Exit(Exit.INTERRUPTED) from error
        raise
