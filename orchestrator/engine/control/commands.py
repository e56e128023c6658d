"""Orders from another terminal: pause, continue, cancel. Rows of the store; whoever works obeys the last one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs

from orchestrator.world import World, current_user, is_alive, this_worker

if TYPE_CHECKING:
    from store.records import CommandRow
    from store.rows import SweepRow
    from store.secrets.redactor import Redactor
    from store.sql.writer import Writer

ControlCommand = Literal["pause", "continue", "cancel"]
CONTROL_COMMANDS = ("pause", "continue", "cancel")
STORE_WAIT_S = 60.0
"""How long an order waits for others to leave the store."""
CANCEL_LEASE_S = 15.0
"""How long a process that cancels is believed to live, should it die meanwhile."""


def find_active_command(commands: Iterable[CommandRow]) -> CommandRow | None:
    """The pause or the cancel that holds now; None where the last order was to continue, or there was none."""
    orders = [row for row in commands if row.verb in CONTROL_COMMANDS]
    return orders[-1] if orders and orders[-1].verb != "continue" else None


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
    """Write an order down, with who gave it and *why*. Of a cancelled sweep, skip all that nobody works on; how much.

    Raises:
        StoreRefused, StoreStalled: the store cannot be opened for writing.
        StoreFailed: the order could not be written.
    """
    from orchestrator.engine.open_store import open_for_writing
    from store.sql.commands import record_command

    by, why = redactor.redact_text(current_user()), redactor.redact_text(why)
    async with open_for_writing(store, say=say, max_stall_s=STORE_WAIT_S) as writer:
        await writer.submit_and_wait(record_command(sweep.id, command, who=by, why=why, payload={}, at=world.wall()))
        if command != "cancel":
            return 0
        reason = f"cancelled by {by}" + (f" ({why})" if why else "")
        return await _skip_free(writer, sweep, reason, redactor, world)


async def _skip_free(writer: Writer, sweep: SweepRow, message: str, redactor: Redactor, world: World) -> int:
    """Give what no live process holds the outcome `skipped(cancelled)`, so that nobody has to work on it for that."""
    from orchestrator.engine.skips import skip_rest
    from orchestrator.version import __version__
    from store.sql.claims import SqliteClaims
    from store.sql.leases import end_lease, register_worker
    from store.sql.ledger import SqliteLedger

    lease_us = round(CANCEL_LEASE_S * 1_000_000)
    worker_id = await writer.submit_and_wait(
        register_worker(this_worker(__version__, world.wall()), world.wall() + lease_us)
    )
    claims = SqliteClaims(
        writer, sweep_id=sweep.id, worker_id=worker_id, wall=world.wall, lease_us=lease_us, is_alive=is_alive
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
    """What resuming a sweep does to an order that holds it back."""

    command: CommandRow
    why: str
    """Kept with the order to continue."""


def plan_lift(command: CommandRow | None, *, cancelled: bool) -> Lift | None:
    """Resuming lifts a pause; a cancel only where *cancelled* runs are asked for."""
    if command is None or (command.verb == "cancel" and not cancelled):
        return None
    return Lift(command=command, why="resume" if command.verb == "pause" else "resume --cancelled")
