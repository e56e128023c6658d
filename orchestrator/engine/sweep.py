"""A sweep from plan to last result: opens the store, stores the plan or reads it back, and works on the runs."""

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
"""The mode in which no process is started, not even git."""


async def start_sweep(setup: WorkerSetup, *, command: str, purpose: str = "sweep") -> SweepEnd:
    """Plan a sweep, store the plan, and work on it. Only sweeps with the *purpose* `sweep` enter a history.

    Raises:
        StoreRefused, StoreStalled: the store cannot be opened.
        StoreFailed: the record can no longer be kept.
    """
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
        del planned  # from here on only the store holds the plan, which may be long
        setup.say(f"sweep {name}: {format_count(runs, 'run')} planned")
        if changed:
            setup.say(
                f"warning: {', '.join(changed)}: content changed since the last run, but the version did not; "
                "increase suiteVersion (in a lab, the fixture's version) to keep old and new results apart"
            )
        return await work_on_sweep(setup, writer, StoredSweep(id=sweep_id, name=name, planned=runs))


async def resume_sweep(setup: WorkerSetup, sweep: SweepRow, *, raised: bool) -> SweepEnd:
    """Work on the runs of a stored sweep that have no final result yet; other processes may work on it, too.

    With *raised* the setup's caps are new totals of the sweep; they are stored with the user and the prices. A pause is
    lifted; a cancelled sweep stays cancelled, unless the setup runs cancelled runs again.

    Raises:
        UsageError: the files under test have changed since the sweep was planned.
        StoreRefused, StoreStalled: the store cannot be opened.
        StoreFailed: the record can no longer be kept.
    """
    refuse_changed(setup.kind.content, setup.kind.nouns, sweep)
    async with open_for_writing(setup.store, say=setup.say, max_stall_s=setup.terms.max_stall_s) as writer:
        if raised:
            await writer.submit_and_wait(charge_unrecorded_spending(sweep.id, is_alive=is_alive, at=setup.world.wall()))
            caps = {**attrs.asdict(setup.terms.caps), table.PRICES_KEY: table.render_prices(setup.terms.prices)}
            command = record_command(
                sweep.id, "raise_cap", who=current_user(), why="resume", payload=caps, at=setup.world.wall()
            )
            await writer.submit_and_wait(command)
        await _lift_command(setup, writer, sweep)
        with Reader(setup.store) as reader:
            before = tuple(reader.count_outcomes(sweep.id))
        return await work_on_sweep(
            setup, writer, StoredSweep(id=sweep.id, name=sweep.name, planned=sweep.runs, outcomes=before)
        )


async def _lift_command(setup: WorkerSetup, writer: Writer, sweep: SweepRow) -> None:
    """End a pause, or a cancel whose runs are to run after all: record who did, and print it."""
    with Reader(setup.store) as reader:
        lift = plan_lift(find_active_command(reader.list_commands(sweep.id)), cancelled=setup.rerun_cancelled)
    if lift is None:
        return
    await writer.submit_and_wait(
        record_command(sweep.id, "continue", who=current_user(), why=lift.why, payload={}, at=setup.world.wall())
    )
    word = "paused" if lift.command.verb == "pause" else "cancelled"
    setup.say(f"sweep {sweep.name} was {word} by {describe_author(lift.command)}; it continues now")


def refuse_changed(content: Mapping[str, str], nouns: KindNouns, sweep: SweepRow) -> None:
    """Refuse to continue with files that differ from those the sweep was planned with.

    Raises:
        UsageError: files differ; the message names them.
    """
    stored: Mapping[str, str] = sweep.conditions["suite"]["content"]
    changed = sorted(path for path in stored.keys() | content.keys() if stored.get(path) != content.get(path))
    if changed:
        raise UsageError(
            f"sweep {sweep.name}: the {nouns.subject} has changed since it was planned: {list_names(changed)}",
            f"Restore these files, or start a new sweep with `evalctl {nouns.verb or sweep.command}`."
            f"{nouns.changed_hint}",
        )
