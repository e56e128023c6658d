"""Commands from another terminal: pause, continue, cancel. They are rows of the store; workers obey the last one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs

from orchestrator.version import __version__
from orchestrator.world import World, current_user, is_alive, is_running, this_worker

if TYPE_CHECKING:
    from store.records import CommandRow
    from store.rows import SweepRow
    from store.secrets.redactor import Redactor
    from store.sql.writer import Writer

ControlCommand = Literal["pause", "continue", "cancel"]
CONTROL_COMMANDS = ("pause", "continue", "cancel")
STORE_WAIT_S = 60.0
"""Seconds that a command waits for other processes to release the store."""
CANCEL_LEASE_S = 15.0
"""Lease of a process that cancels, in seconds, should it die meanwhile."""


def find_active_command(commands: Iterable[CommandRow]) -> CommandRow | None:
    """Find the pause or the cancel in force; None if the last command was to continue, or if there is none."""
    given = [row for row in commands if row.verb in CONTROL_COMMANDS]
    return given[-1] if given and given[-1].verb != "continue" else None


async def give_command(
    store: Path,
    sweep: SweepRow,
    command: ControlCommand,
    *,
    why: str,
    redactor: Redactor,
    world: World,
    say: Callable[[str], None],
) -> int:
    """Record a command with its author and *why*, and skip the free runs of a cancelled sweep; return their number.

    Raises:
        StoreRefused, StoreStalled: the store cannot be opened for writing.
        StoreFailed: the command could not be written.
    """
    from orchestrator.engine.open_store import open_for_writing  # noqa: PLC0415 - reports import this module for its names alone
    from store.sql.commands import record_command  # noqa: PLC0415 - (the same)

    by, why = redactor.redact_text(current_user()), redactor.redact_text(why)
    async with open_for_writing(store, say=say, max_stall_s=STORE_WAIT_S) as writer:
        await writer.submit_and_wait(record_command(sweep.id, command, who=by, why=why, payload={}, at=world.wall()))
        if command != "cancel":
            return 0
        reason = f"cancelled by {by}" + (f" ({why})" if why else "")
        return await _skip_free(writer, sweep, reason, redactor, world)


async def _skip_free(writer: Writer, sweep: SweepRow, message: str, redactor: Redactor, world: World) -> int:
    """Record `skipped(cancelled)` for all runs that no live process holds; return their number."""
    from orchestrator.engine.skips import skip_rest  # noqa: PLC0415 - only a cancel needs it
    from store.sql.claims import SqliteClaims  # noqa: PLC0415 - (the same)
    from store.sql.leases import end_lease, register_worker  # noqa: PLC0415 - (the same)
    from store.sql.ledger import SqliteLedger  # noqa: PLC0415 - (the same)

    lease_us = round(CANCEL_LEASE_S * 1_000_000)
    worker_id = await writer.submit_and_wait(
        register_worker(this_worker(__version__, world.wall()), world.wall() + lease_us)
    )
    claims = SqliteClaims(
        writer,
        sweep_id=sweep.id,
        worker_id=worker_id,
        wall=world.wall,
        lease_us=lease_us,
        is_alive=is_alive,
        is_running=is_running,
    )
    ledger = SqliteLedger(
        writer,
        redactor,
        sweep_id=sweep.id,
        worker_id=worker_id,
        wall=world.wall,
        monotonic=world.monotonic,
        on_acknowledged=lambda _ending, _counts: None,
    )
    count = await skip_rest(claims, ledger, (), reason="cancelled", message=message, wall=world.wall)
    ledger.record_notice("left", {"why": "cancelled", "message": message, "remaining": await claims.count_remaining()})
    await writer.submit_and_wait(end_lease(worker_id))
    return count


@attrs.frozen(kw_only=True)
class Lift:
    """Decision of `resume` to lift the command that stops a sweep."""

    command: CommandRow
    """The command to lift: a pause or a cancel."""
    why: str
    """The reason to store with the `continue` command."""


def plan_lift(command: CommandRow | None, *, cancelled: bool) -> Lift | None:
    """Decide which command `resume` lifts: a pause, or a cancel if *cancelled* runs are to run again."""
    if command is None or (command.verb == "cancel" and not cancelled):
        return None
    return Lift(command=command, why="resume" if command.verb == "pause" else "resume --cancelled")
