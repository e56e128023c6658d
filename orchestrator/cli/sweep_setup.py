"""Setting up a sweep's process from the command line (store, log, terminal), and its audit and exit code at the end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.common import COMMON, Exit, print_error, print_notice
from store.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.engine.kind import RunKind
    from orchestrator.engine.worker import SweepEnd, WorkerSetup
    from orchestrator.log import Log
    from orchestrator.world import World
    from store.rows import SweepRow
    from store.secrets.redactor import Redactor
    from store.sql.reader import Reader


def store_of(world: World) -> Path:
    """Return the path of the store in use."""
    from store.sql.database import locate_store

    return locate_store(COMMON.store, world.environment, Path.cwd())


def log_of(redactor: Redactor) -> Log:
    """Open the log on stderr; without --verbose, one that discards its events."""
    from orchestrator.log import discard_event, open_log

    if COMMON.verbosity <= 0:
        return discard_event
    return open_log(redactor, form=COMMON.log_format, color=COMMON.color and sys.stderr.isatty())


def can_draw_progress() -> bool:
    """Return whether stderr is a terminal on which a progress bar may be drawn."""
    return sys.stderr.isatty() and COMMON.verbosity == 0


def read_seconds(world: World, variable: str, default: float) -> float:
    """Read a number of seconds from the environment.

    Raises:
        UsageError: the variable holds no number above 0.
    """
    text = world.environment.get(variable)
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"{variable}: expected a number of seconds above 0, got {text!r}")
    return seconds


def set_up_worker(
    kind: RunKind,
    redactor: Redactor,
    world: World,
    *,
    on_result: Callable[[str, int], None] = lambda _sweep, _position: None,
    rerun_errors: bool = False,
    rerun_cancelled: bool = False,
) -> WorkerSetup:
    """Set up this process as a worker, with the store, terminal, log and lease of this command line.

    Args:
        kind: the runs of the sweep, with its settings.
        redactor: removes secrets before anything is stored or logged.
        world: clocks and environment.
        on_result: called with the sweep's name and the run's position for each durable result.
        rerun_errors: whether runs that ended in an infrastructure error run again.
        rerun_cancelled: whether cancelled runs run again.

    Raises:
        UsageError: EVALCTL_LEASE_SECONDS holds no number of seconds.
    """
    from orchestrator.engine.worker import LEASE_S, WorkerSetup

    return WorkerSetup(
        kind=kind,
        redactor=redactor,
        store=store_of(world),
        world=world,
        say=print_notice,
        terminal=can_draw_progress(),
        rerun_errors=rerun_errors,
        rerun_cancelled=rerun_cancelled,
        log=log_of(redactor),
        on_result=on_result,
        lease_s=read_seconds(world, "EVALCTL_LEASE_SECONDS", LEASE_S),
    )


def print_audit(reader: Reader, row: SweepRow, world: World) -> bool:
    """Print the audit of the sweep and return whether its books balance. Problems are printed even with --quiet."""
    from orchestrator.engine import audit
    from orchestrator.world import is_alive

    books = audit.audit_sweep(reader, row, now=world.wall(), is_alive=is_alive)
    for line in audit.audit_lines(books):
        (print_error if books.problems else print_notice)(line)
    return not books.problems


def exit_code_of(end: SweepEnd, report: Callable[[], int]) -> int:
    """Call *report* and return its exit code; if its output is lost after a signal, return the signal's code."""
    from orchestrator.cli.streams import OutputLost

    try:
        return report()
    except (OutputLost, BrokenPipeError):
        if end.signal is None:
            raise
        return signal_exit_code(end.signal)


def signal_exit_code(number: int) -> int:
    """Return the exit code of a process that the signal *number* ended."""
    return Exit.INTERRUPTED if number == signal.SIGINT else Exit.TERMINATED
