"""What a command line gives a sweep to work in, and what it makes of its end: store, log, terminal, books, signals."""

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
    """The store that is used."""
    from store.sql.database import locate_store

    return locate_store(COMMON.store, world.environment, Path.cwd())


def log_of(redactor: Redactor) -> Log:
    """Where log lines go; nowhere unless they are asked for."""
    from orchestrator.log import discard_event, open_log

    if COMMON.verbosity <= 0:
        return discard_event
    return open_log(redactor, form=COMMON.log_format, color=COMMON.color and sys.stderr.isatty())


def at_terminal() -> bool:
    """Whether a bar can be drawn."""
    return sys.stderr.isatty() and COMMON.verbosity == 0


def read_seconds(world: World, variable: str, default: float) -> float:
    """A number of seconds from the environment.

    Raises:
        UsageError: the variable holds something else.
    """
    text = world.environment.get(variable)
    if text is None:
        return default
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise UsageError(f"{variable}: expected a number of seconds above 0, got {text!r}")
    return found


def set_up_worker(
    kind: RunKind,
    redactor: Redactor,
    world: World,
    *,
    on_result: Callable[[str, int], None] = lambda _sweep, _position: None,
    errors: bool = False,
    cancelled: bool = False,
) -> WorkerSetup:
    """Set up this process as a worker: the store, the terminal, the log and the lease that the command line names.

    Args:
        kind: of the sweep, with its settings.
        redactor: takes secrets out of all that is stored or logged.
        world: clocks and environment.
        on_result: called with the sweep's name and the run's position for each durable result.
        errors: whether runs that had ended in an infrastructural error run again.
        cancelled: the same for cancelled ones.

    Raises:
        UsageError: a variable of the environment holds no number of seconds.
    """
    from orchestrator.engine.worker import LEASE_S, WorkerSetup

    return WorkerSetup(
        kind=kind,
        redactor=redactor,
        store=store_of(world),
        world=world,
        say=print_notice,
        terminal=at_terminal(),
        rerun_errors=errors,
        rerun_cancelled=cancelled,
        log=log_of(redactor),
        on_result=on_result,
        lease_s=read_seconds(world, "EVALCTL_LEASE_SECONDS", LEASE_S),
    )


def print_audit(reader: Reader, row: SweepRow, world: World) -> bool:
    """Say whether the sweep's books balance: loudly, whatever the verbosity, where they do not."""
    from orchestrator.engine import audit
    from orchestrator.world import is_alive

    found = audit.audit_sweep(reader, row, now=world.wall(), is_alive=is_alive)
    for line in audit.audit_lines(found):
        (print_error if found.problems else print_notice)(line)
    return not found.problems


def exit_code_of(end: SweepEnd, report: Callable[[], int]) -> int:
    """The exit code that *report* comes to. When a signal ended the sweep, that is told even if nobody can read the
    report any more.
    """
    from orchestrator.cli.streams import OutputLost

    try:
        return report()
    except (OutputLost, BrokenPipeError):
        if end.signal is None:
            raise
        return signal_exit_code(end.signal)


def signal_exit_code(number: int) -> int:
    """The exit code of what a signal ended."""
    return Exit.INTERRUPTED if number == signal.SIGINT else Exit.TERMINATED
