"""The verbs `pause`, `continue` and `cancel`: what another terminal tells a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.common import COMMON, print_data, print_notice

if TYPE_CHECKING:
    from orchestrator.engine.control.commands import ControlCommand
    from orchestrator.reports.status.standing import Standing
    from store.rows import SweepRow

SCHEMA = "evalctl.order/1"

Sweep = Annotated[
    str, typer.Argument(metavar="SWEEP", help="A sweep's name, its beginning, or `last`.", show_default=False)
]
Because = Annotated[str, typer.Option("--why", metavar="TEXT", help="Kept with the order, and shown.")]


def pause(sweep: Sweep, why: Because = "") -> None:
    """Let SWEEP start nothing new: running attempts end, and its processes wait for `continue`.

    It holds for every process that works on the sweep, on this machine or another, and is heard within about a second.
    """
    _give_command("pause", sweep, why)


def go_on(sweep: Sweep, why: Because = "") -> None:
    """Let a paused SWEEP go on."""
    _give_command("continue", sweep, why)


def cancel(sweep: Sweep, why: Because = "") -> None:
    """End SWEEP: what runs is ended and recorded, and the rest is skipped. Asks nothing.

    All of it becomes skipped(cancelled), which `resume` leaves alone and `resume --cancelled` runs. Processes that work
    on the sweep leave with exit code 1.
    """
    _give_command("cancel", sweep, why)


def _give_command(order: ControlCommand, name: str, why: str) -> None:
    from functools import partial

    import anyio

    from orchestrator.cli.sweep_setup import store_of
    from orchestrator.engine.control.commands import find_active_command, give_command
    from orchestrator.reports.status.standing import standing_of
    from orchestrator.world import is_alive, real_world
    from store.secrets.redactor import Redactor, find_credentials
    from store.sql.reader import Reader

    world = real_world()
    store = store_of(world)
    with Reader(store) as reader:
        sweep = reader.find_sweep(name)
        held = find_active_command(reader.list_commands(sweep.id))
        if (
            needless := _explain_needless(order, None if held is None else held.verb, reader.count_remaining(sweep.id))
        ) is not None:
            _print_command(sweep, order, needless, given=False)
            return
        found = standing_of(reader, sweep, now=world.wall(), is_alive=is_alive)
    redactor = Redactor(find_credentials(world.environment))
    skipped = anyio.run(
        partial(give_command, store, sweep, order, why=why, redactor=redactor, world=world, say=print_notice)
    )
    _print_command(
        sweep,
        order,
        _describe_effect(order, found, skipped),
        given=True,
        processes=_count_working(found),
        skipped=skipped,
    )


def _explain_needless(order: ControlCommand, held: str | None, remaining: int) -> str | None:
    """Why an order would change nothing; None when it would."""
    if order == "continue":
        return None if held == "pause" else _not_paused(held)
    if not remaining:
        return f"nothing is left to {order}"
    return "it is paused already" if order == held == "pause" else None


def _not_paused(held: str | None) -> str:
    return "it is cancelled: `evalctl resume --cancelled` runs it after all" if held else "it is not paused"


def _count_working(found: Standing) -> int:
    return sum(worker.state == "running" for worker in found.workers)


def _describe_effect(order: ControlCommand, found: Standing, skipped: int) -> str:
    from orchestrator.text import format_count

    working = _count_working(found)
    processes = f"{working} process{'es work' if working != 1 else ' works'} on it"
    if order == "pause":
        return f"paused: {processes}, and what runs may end" if working else "paused, though no process works on it"
    if order == "continue":
        return f"it goes on: {processes}" if working else "it may go on: no process works on it, so `evalctl resume` it"
    if not working:
        return f"cancelled: {format_count(skipped, 'run')} skipped"
    already = f"; {format_count(skipped, 'run')} skipped already" if skipped else ""
    return f"cancelled: {processes}, to end what has begun and to skip the rest{already}"


def _print_command(
    sweep: SweepRow, order: ControlCommand, words: str, *, given: bool, processes: int = 0, skipped: int = 0
) -> None:
    if COMMON.json:
        import json

        facts = {"sweep": sweep.name, "order": order, "given": given, "processes": processes, "skipped": skipped}
        print_data(json.dumps({"schema": SCHEMA, **facts, "message": words}))
    else:
        print_data(f"sweep {sweep.name}: {words}")
