"""From cells to the plan that is stored before anything runs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from orchestrator.engine.kind import Planning
from orchestrator.engine.run_order import ordered
from orchestrator.lab.cells import Cell
from orchestrator.lab.model import Lab, Mode
from store.documents.canonical import canonical, digest
from store.events import Json
from store.rows import CellRow, NewSweep, PlannedRun

FINGERPRINT_VERSION = 1
TARGET = "decision"
"""What is measured: a decision flow. Whom it asks is the variant."""


def identity(lab: Lab, cell: Cell, mode: Mode) -> dict[str, Json]:
    """The lineage of a cell: what stays the same while content, flow and model may move."""
    return {
        "algorithm": FINGERPRINT_VERSION,
        "suite": lab.id,
        "case": cell.fixture.case_id,
        "caseVersion": str(cell.fixture.version),
        "rubricVersion": "",
        "target": TARGET,
        "variant": cell.target,
        "pack": "none",
        "profile": "none",
        "mode": mode,
        "exec": "flow",
        "subjectVersion": "",
    }


def cell_row(lab: Lab, cell: Cell, mode: Mode) -> CellRow:
    """The measured thing, with the document that explains its digest field by field."""
    lineage, fixture = identity(lab, cell, mode), cell.fixture
    config = digest(cell.document()).hex()
    model = cell.aim.model if cell.aim is not None else ""
    document = {
        "identity": lineage,
        "content": {
            "input": fixture.input_hash,
            "expect": digest([attrs.asdict(one) for one in fixture.expect]).hex(),
            "replay": digest(dict(fixture.replay)).hex(),
        },
        "cassette": cell.recorded,
        "configHash": config,
        "provider": cell.aim.backend if cell.aim is not None else "",
        "model": model,
    }
    return CellRow(
        digest=digest(document),
        fingerprint=digest(lineage).hex(),
        fingerprint_version=FINGERPRINT_VERSION,
        config_hash=config,
        suite_id=lab.id,
        suite_version=lab.version,
        case_id=fixture.case_id,
        case_version=str(fixture.version),
        variant=cell.target,
        target=TARGET,
        model=model,
        document=canonical(document).decode(),
    )


def plan(lab: Lab, cells: Sequence[Cell], planning: Planning) -> NewSweep:
    """Lay out every run in its order: each cell as often as the settings say, one that is skipped once."""
    settings = planning.settings
    mode: Mode = "offline" if settings.mode == "offline" else "live"
    cases = _numbered(cell.fixture.case_id for cell in cells)
    targets = _numbered(cell.target for cell in cells)
    places = {(cases[cell.fixture.case_id], targets[cell.target]): index for index, cell in enumerate(cells)}
    slots = (
        (slot, places[slot.case, slot.variant])
        for slot in ordered(cases=len(cases), variants=len(targets), repetitions=settings.k, seed=settings.seed)
        if (slot.case, slot.variant) in places
    )
    kept = ((slot, index) for slot, index in slots if slot.repetition == 0 or cells[index].skip is None)
    return NewSweep(
        name=planning.name,
        command=planning.command,
        purpose=planning.purpose,
        suite_id=lab.id,
        mode=mode,
        seed=settings.seed,
        repetitions=settings.k,
        planned_at=planning.planned_at,
        conditions=dict(planning.conditions),
        cells=tuple(cell_row(lab, cell, mode) for cell in cells),
        runs=tuple(
            PlannedRun(position=position, cell=index, repetition=slot.repetition, pair=slot.pair)
            for position, (slot, index) in enumerate(kept, start=1)
        ),
    )


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """Each name's number, in the order in which they come first."""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}
