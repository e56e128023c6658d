"""Sweep plan of a suite: its cells and runs, which are stored before anything runs. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import cast

import attrs

from orchestrator.engine.run_order import order_runs
from orchestrator.measured import config_hash
from orchestrator.suite.model import Suite, Task
from orchestrator.suite.settings import Settings
from store.documents.canonical import compute_digest
from store.errors import UsageError
from store.events import Json
from store.identity import Identity, identify_cell
from store.rows import CellRow, NewSweep, PlannedRun

TARGET = "agent"
"""Target of the built-in agent, in a cell's identity."""


def select_tasks(suite: Suite, wanted: Sequence[str]) -> tuple[Task, ...]:
    """Select the tasks that *wanted* names (`id` or `suite/id`), in the suite's order; all tasks if it is empty.

    Raises:
        UsageError: a task is unknown; names the nearest ones.
    """
    if not wanted:
        return suite.tasks
    known = {task.id for task in suite.tasks}
    ids = {name.removeprefix(f"{suite.suite_id}/") for name in wanted}
    if unknown := sorted(ids - known):
        near = sorted({m for name in unknown for m in difflib.get_close_matches(name, known, 3)})
        hint = f"Did you mean {', '.join(near)}?" if near else f"It has {', '.join(sorted(known))}."
        raise UsageError(f"--tasks: suite '{suite.suite_id}' has no task {', '.join(map(repr, unknown))}", hint)
    return tuple(task for task in suite.tasks if task.id in ids)


def plan_cell(suite: Suite, task: Task, settings: Settings, variant: str) -> CellRow:
    """Plan the cell of a task under a variant."""
    prefix = f"{task.fixture}/"
    return identify_cell(
        Identity(
            suite=suite.suite_id,
            case=task.id,
            case_version=suite.suite_version,
            target=TARGET,
            variant=variant,
            mode=settings.mode,
            exec="autonomous",
        ),
        suite_version=suite.suite_version,
        content={
            "task": compute_digest(_make_task_document(task)).hex(),
            "fixture": compute_digest({k: v for k, v in suite.content.items() if k.startswith(prefix)}).hex(),
        },
        config_hash=config_hash(settings.select_agent(task.agent, variant)),
        provider=settings.provider,
        model=settings.model,
    )


def plan_sweep(
    suite: Suite,
    tasks: Sequence[Task],
    settings: Settings,
    *,
    name: str,
    command: str,
    planned_at: int,
    conditions: dict[str, Json],
    purpose: str = "sweep",
) -> NewSweep:
    """Make the sweep plan: all cells, and all runs in order of execution."""
    variants = settings.list_variant_ids()
    cells = tuple(plan_cell(suite, task, settings, variant) for task in tasks for variant in variants)
    runs = tuple(
        PlannedRun(
            position=position,
            cell=slot.case * len(variants) + slot.variant,
            repetition=slot.repetition,
            pair=slot.pair,
        )
        for position, slot in enumerate(
            order_runs(cases=len(tasks), variants=len(variants), repetitions=settings.k, seed=settings.seed),
            start=1,
        )
    )
    return NewSweep(
        name=name,
        command=command,
        purpose=purpose,
        suite_id=suite.suite_id,
        mode="replay" if settings.mode == "replay" else "live",
        seed=settings.seed,
        repetitions=settings.k,
        planned_at=planned_at,
        conditions=conditions,
        cells=cells,
        runs=runs,
    )


def _make_task_document(task: Task) -> dict[str, Json]:
    """Encode everything in the task that can influence a run; tags cannot."""
    values = attrs.asdict(task, filter=lambda field, _: field.name not in ("tags", "verifiers"))
    values["verifiers"] = [
        {"kind": verifier.kind, **attrs.asdict(cast("attrs.AttrsInstance", verifier))} for verifier in task.verifiers
    ]
    return values
