"""A sweep from plan to last result: opens the store, claims, executes, and leaves everything accounted for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

from orchestrator.engine.control.commands import find_active_command, plan_lift
from orchestrator.engine.control.control import describe_author
from orchestrator.engine.kind import PlanRequest
from orchestrator.engine.nouns import KindNouns
from orchestrator.engine.open_store import open_for_writing
from orchestrator.engine.worker import StoredSweep, SweepEnd, WorkerSetup, work_on_sweep
from orchestrator.provenance import read_provenance
from orchestrator.text import format_count, list_names
from orchestrator.world import current_user, is_alive, sweep_name
from providers.prices import table
from store.errors import UsageError
from store.events import Json
from store.rows import SweepRow
from store.sql.commands import record_command
from store.sql.plans import find_changed_cases, store_plan
from store.sql.reader import Reader
from store.sql.reclaim import charge_unrecorded_spending
from store.sql.writer import Writer

OFFLINE = "offline"
"""The mode in which no process is started, whatever for."""


async def start_sweep(setup: WorkerSetup, *, command: str, purpose: str = "sweep") -> SweepEnd:
    """Plan a sweep, store the plan, and work on it. Only those with the *purpose* `sweep` enter a history."""
    name = sweep_name(setup.world.wall())
    conditions: dict[str, Json] = {
        **await read_provenance(Path.cwd(), setup.world.environment, ask_git=setup.terms.mode != OFFLINE),
        "settings": setup.terms.to_json(),
        **setup.kind.describe_conditions(),
    }
    planned = setup.kind.plan_sweep(
        PlanRequest(
            name=name,
            command=command,
            purpose=purpose,
            planned_at=setup.world.wall(),
            conditions=conditions,
        )
    )
    async with open_for_writing(setup.store, say=setup.say, max_stall_s=setup.terms.max_stall_s) as writer:
        changed = await writer.submit_and_wait(find_changed_cases(planned.cells))
        sweep_id = await writer.submit_and_wait(store_plan(planned, setup.redactor))
        runs = len(planned.runs)
        del planned  # from here on the store holds the plan, however long it is
        setup.say(f"sweep {name}: {format_count(runs, 'run')} planned")
        if changed:
            setup.say(
                f"warning: {', '.join(changed)}: not what it was when last run under the same version; a new one "
                "(suiteVersion; of a lab, the fixture's version) keeps results of different content apart"
            )
        return await work_on_sweep(setup, writer, StoredSweep(id=sweep_id, name=name, planned=runs))


async def resume_sweep(setup: WorkerSetup, sweep: SweepRow, *, raised: bool) -> SweepEnd:
    """Work on a stored sweep: on what has no final result yet, beside whoever else works on it.

    With *raised* the setup's caps are new totals of the sweep; that is kept, with who said so, and so are
    its prices. A pause is lifted; a cancelled sweep stays cancelled, unless the setup runs cancelled runs again.
    """
    refuse_changed(setup.kind.content, setup.kind.nouns, sweep)
    async with open_for_writing(setup.store, say=setup.say, max_stall_s=setup.terms.max_stall_s) as writer:
        if raised:
            await writer.submit_and_wait(charge_unrecorded_spending(sweep.id, is_alive=is_alive, at=setup.world.wall()))
            caps = {**attrs.asdict(setup.terms.caps), table.PRICES_KEY: table.render_prices(setup.terms.prices)}
            told = record_command(
                sweep.id, "raise_cap", who=current_user(), why="resume", payload=caps, at=setup.world.wall()
            )
            await writer.submit_and_wait(told)
        await _lift_command(setup, writer, sweep)
        with Reader(setup.store) as reader:
            before = tuple(reader.count_outcomes(sweep.id))
        return await work_on_sweep(
            setup, writer, StoredSweep(id=sweep.id, name=sweep.name, planned=sweep.runs, outcomes=before)
        )


async def _lift_command(setup: WorkerSetup, writer: Writer, sweep: SweepRow) -> None:
    """End a pause, or a cancel whose runs are wanted after all; it is kept who did, and said."""
    with Reader(setup.store) as reader:
        lift = plan_lift(find_active_command(reader.list_commands(sweep.id)), cancelled=setup.rerun_cancelled)
    if lift is None:
        return
    await writer.submit_and_wait(
        record_command(sweep.id, "continue", who=current_user(), why=lift.why, payload={}, at=setup.world.wall())
    )
    word = "paused" if lift.command.verb == "pause" else "cancelled"
    setup.say(f"sweep {sweep.name} was {word} by {describe_author(lift.command)}: it goes on")


def refuse_changed(content: Mapping[str, str], nouns: KindNouns, sweep: SweepRow) -> None:
    """Refuse to go on with files that differ from those the sweep was planned with.

    Raises:
        UsageError: files differ; names them.
    """
    stored: Mapping[str, str] = sweep.conditions["suite"]["content"]
    changed = sorted(path for path in stored.keys() | content.keys() if stored.get(path) != content.get(path))
    if changed:
        raise UsageError(
            f"sweep {sweep.name}: the {nouns.subject} has changed since it was planned: {list_names(changed)}",
            f"Put these files back as they were, or start a new sweep with `evalctl {nouns.verb or sweep.command}`."
            f"{nouns.changed_hint}",
        )
