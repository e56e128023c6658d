"""The reader of a lab's runs and facts from stored rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import attrs

from orchestrator.lab.report.build import build_report
from orchestrator.lab.report.clean import clean_runs
from orchestrator.lab.report.conditions import read_conditions
from orchestrator.lab.report.model import LabFacts, LabReport, TargetFacts
from orchestrator.lab.report.run import LabRun
from orchestrator.reports.clean import clean_report
from orchestrator.reports.conditions import as_mapping
from store.rows import CellRecord, RunRecord, SweepRow
from store.secrets.scanner import Cleaner

if TYPE_CHECKING:
    from store.sql.reader import Reader


@attrs.frozen(kw_only=True)
class StoredLabSweep:
    """A lab's sweep as stored at one moment."""

    sweep: SweepRow
    facts: LabFacts
    rows: tuple[tuple[RunRecord, LabRun], ...]
    """Every planned run, in the stored order."""

    @property
    def runs(self) -> Iterator[LabRun]:
        """The runs without their stored records."""
        return (run for _, run in self.rows)


def read_lab_sweep(reader: Reader, sweep: SweepRow, target: str | None = None) -> StoredLabSweep:
    """Read the runs and facts of *sweep* as they are now; with *target* only the runs of that target."""
    cells = {cell.id: cell for cell in reader.list_cells(sweep.id, target)}
    targets = _find_targets(sweep, cells.values())
    local = {target.id for target in targets if target.local}
    records = list(reader.iterate_runs(sweep.id, None if target is None else cells))
    versions = sorted({worker.version for worker in reader.list_workers(sweep.id)})
    answering = tuple(sorted({model for run in records if (model := run.measured.model_resolved) is not None}))
    facts = LabFacts(
        sweep=sweep.name,
        lab=sweep.suite_id,
        version=", ".join(sorted({cell.suite_version for cell in cells.values()})),
        mode=sweep.mode,
        repeat=sweep.repetitions,
        seed=sweep.seed,
        targets=targets,
        answering=answering,
        conditions=read_conditions(sweep, tuple(cells.values()), versions, answering),
        spent=reader.sum_spent(sweep.id, target) if sweep.mode == "live" else None,
    )
    rows = tuple((run, build_lab_run(run, cells[run.cell_id], mode=sweep.mode, local=local)) for run in records)
    return StoredLabSweep(sweep=sweep, facts=facts, rows=rows)


def build_stored_report(
    reader: Reader, sweep: SweepRow, *, variant: str | None = None, cleaner: Cleaner | None = None
) -> LabReport:
    """Build the report of *sweep* as stored now, with secrets masked; with *variant* only of that target."""
    cleaner = cleaner or Cleaner()
    stored = read_lab_sweep(reader, sweep, variant)
    return clean_report(build_report(stored.facts, clean_runs(stored.runs, cleaner)), cleaner)


def build_lab_run(
    run: RunRecord, cell: CellRecord, *, mode: str, local: frozenset[str] | set[str] = frozenset()
) -> LabRun:
    """Build one run from its stored record; *local* are the ids of local targets."""
    capability, _, fixture = cell.case_id.partition("/")
    decision = as_mapping(run.detail.get("decision"))
    message = run.detail.get("message")
    return LabRun(
        capability=capability,
        case_name=fixture,
        version=cell.case_version,
        target=cell.variant,
        repetition=run.repetition,
        position=run.position,
        outcome=run.outcome,
        reason=run.reason,
        judged=run.judged,
        again=run.again,
        decision_status=run.decision_status,
        decision=decision.get("decision"),
        abstain=decision.get("abstain"),
        error=decision.get("error"),
        confidence=_read_confidence(decision.get("confidence")),
        trace=decision.get("trace"),
        asked=mode == "live" and bool(run.measured.calls),
        wall_ms=run.measured.wall_ms,
        waited_ms=run.measured.waited_ms,
        calls=run.measured.calls,
        cost_nusd=run.measured.cost_nusd,
        local=cell.variant in local,
        verdicts=run.verdicts,
        message=None if message is None else str(message),
    )


def _find_targets(sweep: SweepRow, cells: Iterable[CellRecord]) -> tuple[TargetFacts, ...]:
    """Find the targets that have cells, in the lab's order, without `replay`."""
    targets = as_mapping(as_mapping(sweep.conditions.get("lab")).get("targets"))
    models = {cell.variant: cell.model for cell in cells}
    order = [name for name in targets if name in models]
    return tuple(
        TargetFacts(
            id=name,
            backend=as_mapping(targets[name]).get("backend"),
            model=as_mapping(targets[name]).get("model", models[name]),
            local=as_mapping(targets[name]).get("local") is True,
        )
        for name in order
    )


def _read_confidence(value: Any) -> float | None:
    """Return a number from 0 to 1; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return None
    return float(value)
