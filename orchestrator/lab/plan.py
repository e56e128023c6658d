"""The sweep plan of a lab: from cells to the rows that are stored before anything runs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from orchestrator.engine.kind import PlanRequest, Terms
from orchestrator.engine.run_order import order_runs
from orchestrator.lab.cells import Cell
from orchestrator.lab.model import Lab, Mode
from store.documents.canonical import compute_digest
from store.identity import Identity, identify_cell
from store.rows import CellRow, NewSweep, PlannedRun

FLOW_TARGET = "decision"
"""The kind of subject that a cell's identity names: a decision flow. The lab's target is the variant."""


def plan_cell(lab: Lab, cell: Cell, mode: Mode) -> CellRow:
    """Return the row of *cell* in the sweep plan."""
    case, aim = cell.case, cell.aim
    return identify_cell(
        Identity(
            suite=lab.id,
            case=case.case_id,
            case_version=str(case.version),
            target=FLOW_TARGET,
            variant=cell.target,
            mode=mode,
            exec="flow",
        ),
        suite_version=lab.version,
        content={
            "input": case.input_hash,
            "expect": compute_digest([attrs.asdict(expectation) for expectation in case.expect]).hex(),
            "replay": compute_digest(dict(case.replay)).hex(),
        },
        config_hash=compute_digest(cell.to_document()).hex(),
        provider=aim.backend if aim is not None else "",
        model=aim.model if aim is not None else "",
        cassette=cell.recorded,
    )


def plan_sweep(lab: Lab, cells: Sequence[Cell], settings: Terms, request: PlanRequest) -> NewSweep:
    """Lay out every run in its order: each cell once per repetition, a skipped cell only once."""
    mode: Mode = "offline" if settings.mode == "offline" else "live"
    cases = _number_names(cell.case.case_id for cell in cells)
    targets = _number_names(cell.target for cell in cells)
    places = {(cases[cell.case.case_id], targets[cell.target]): index for index, cell in enumerate(cells)}
    slots = (
        (slot, places[slot.case, slot.variant])
        for slot in order_runs(cases=len(cases), variants=len(targets), repetitions=settings.k, seed=settings.seed)
        if (slot.case, slot.variant) in places
    )
    planned = ((slot, index) for slot, index in slots if slot.repetition == 0 or cells[index].skip is None)
    return NewSweep(
        name=request.name,
        command=request.command,
        purpose=request.purpose,
        suite_id=lab.id,
        mode=mode,
        seed=settings.seed,
        repetitions=settings.k,
        planned_at=request.planned_at,
        conditions=dict(request.conditions),
        cells=tuple(plan_cell(lab, cell, mode) for cell in cells),
        runs=tuple(
            PlannedRun(position=position, cell=index, repetition=slot.repetition, pair=slot.pair)
            for position, (slot, index) in enumerate(planned, start=1)
        ),
    )


def _number_names(names: Iterable[str]) -> dict[str, int]:
    """Number the different names from 0, in the order of their first occurrence."""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}
