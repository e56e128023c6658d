"""The verbs `pause`, `continue` and `cancel`: commands from another terminal to a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.common import COMMON, print_data, print_json, print_notice

if TYPE_CHECKING:
    from orchestrator.engine.control.commands import ControlCommand
    from orchestrator.reports.status.standing import Standing
    from store.rows import SweepRow

SCHEMA = "evalctl.order/1"

Sweep = Annotated[
    str, typer.Argument(metavar="SWEEP", help="A sweep's name, a unique prefix, or `last`.", show_default=False)
]
Reason = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason; stored with the command, and shown.")]


def pause(sweep: Sweep, why: Reason = "") -> None:
    """Pause SWEEP: nothing new starts, running attempts end, and its processes wait for `continue`.

    It reaches every process that works on the sweep, on any machine, within about a second.
    """
    _give_command("pause", sweep, why)


def continue_sweep(sweep: Sweep, why: Reason = "") -> None:
    """Continue a paused SWEEP."""
    _give_command("continue", sweep, why)


def cancel(sweep: Sweep, why: Reason = "") -> None:
    """Cancel SWEEP: end and record what runs, and skip the rest. Does not ask for confirmation.

    The runs become skipped(cancelled): `resume` leaves them alone, `resume --cancelled` runs them. Processes that work
    on the sweep end with exit code 1.
    """
    _give_command("cancel", sweep, why)


def _give_command(verb: ControlCommand, name: str, why: str) -> None:
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
        current = find_active_command(reader.list_commands(sweep.id))
        if (
            needless := _explain_needless(
                verb, None if current is None else current.verb, reader.count_remaining(sweep.id)
            )
        ) is not None:
            _print_command(sweep, verb, needless, given=False)
            return
        standing = standing_of(reader, sweep, now=world.wall(), is_alive=is_alive)
    redactor = Redactor(find_credentials(world.environment))
    skipped = anyio.run(
        partial(give_command, store, sweep, verb, why=why, redactor=redactor, world=world, say=print_notice)
    )
    _print_command(
        sweep,
        verb,
        _describe_effect(verb, standing, skipped),
        given=True,
        processes=_count_working(standing),
        skipped=skipped,
    )


def _explain_needless(verb: ControlCommand, current: str | None, remaining: int) -> str | None:
    """Explain why a command would change nothing; None if it would change something."""
    if verb == "continue":
        return None if current == "pause" else _explain_unpaused(current)
    if not remaining:
        return f"nothing is left to {verb}"
    return "it is already paused" if verb == current == "pause" else None


def _explain_unpaused(current: str | None) -> str:
    return "it is cancelled: `evalctl resume --cancelled` runs the rest" if current else "it is not paused"


def _count_working(standing: Standing) -> int:
    return sum(worker.state == "running" for worker in standing.workers)


def _describe_effect(verb: ControlCommand, standing: Standing, skipped: int) -> str:
    from orchestrator.text import format_count

    working = _count_working(standing)
    processes = f"{working} process{'es work' if working != 1 else ' works'} on it"
    if verb == "pause":
        return f"paused: {processes}; running attempts end" if working else "paused; no process works on it"
    if verb == "continue":
        return f"continued: {processes}" if working else "continued, but no process works on it: run `evalctl resume`"
    if not working:
        return f"cancelled: {format_count(skipped, 'run')} skipped"
    already = f"; {format_count(skipped, 'run')} already skipped" if skipped else ""
    return f"cancelled: {processes}, which end running attempts and skip the rest{already}"


def _print_command(
    sweep: SweepRow, verb: ControlCommand, message: str, *, given: bool, processes: int = 0, skipped: int = 0
) -> None:
    if COMMON.json:
        facts = {"sweep": sweep.name, "order": verb, "given": given, "processes": processes, "skipped": skipped}
        print_json({"schema": SCHEMA, **facts, "message": message})
    else:
        print_data(f"sweep {sweep.name}: {message}")
