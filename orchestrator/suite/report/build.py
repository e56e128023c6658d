"""Builds a `Report` from stored rows. Runs are read one by one; only their wall times are kept."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import attrs

from orchestrator.reports.clean import clean_report
from orchestrator.reports.conditions import conditions_of, rates_of
from orchestrator.suite.report.model import (
    CachedInput,
    Compaction,
    Figures,
    Measured,
    Report,
    TaskReport,
    VerifierTally,
)
from orchestrator.suite.report.notes import list_notes
from store.rows import CellRecord, RunRecord, SweepRow, Verdict
from store.secrets.scanner import Cleaner
from store.stats import rates
from store.stats.compare import PLAYED_MODES

if TYPE_CHECKING:
    from collections.abc import Callable

    from store.sql.reader import Reader

Rates = tuple[Decimal, Decimal] | None
"""USD per million input and output tokens."""


def build_report(
    reader: Reader,
    sweep: SweepRow,
    *,
    on_run: Callable[[RunRecord, CellRecord], None] | None = None,
    cleaner: Cleaner | None = None,
    variant: str | None = None,
) -> Report:
    """Build the report of *sweep* from its present rows, with secrets masked.

    Args:
        reader: an open store.
        sweep: the sweep to report on.
        on_run: receives every run with a result, in the stored order.
        cleaner: masks secrets; a note counts those it has masked, here and before.
        variant: limits the report to one variant, whose tasks are then named without it.
    """
    cells = {cell.id: cell for cell in reader.list_cells(sweep.id, variant)}
    tallies = {cell.id: _Tally() for cell in cells.values()}
    whole = _Tally()
    models: set[str] = set()
    for run in reader.iterate_runs(sweep.id, None if variant is None else cells):
        tallies[run.cell_id].add_run(run)
        whole.add_run(run)
        if run.measured.model_resolved is not None:
            models.add(run.measured.model_resolved)
        if on_run is not None and run.outcome is not None:
            on_run(run, cells[run.cell_id])
    replay = sweep.mode in PLAYED_MODES
    price = rates_of(sweep.conditions)
    tasks = tuple(
        tallies[cell.id].to_task_report(cell, cell.variant if variant is None else "", replay=replay, price=price)
        for cell in sorted(cells.values(), key=lambda cell: (cell.case_id, cell.variant, cell.id))
    )
    summary = whole.to_figures(replay=replay, price=price)
    versions = sorted({worker.version for worker in reader.list_workers(sweep.id)})
    report = Report(
        sweep=sweep.name,
        conditions=conditions_of(sweep, tuple(cells.values()), versions, sorted(models)),
        replay=replay,
        tasks=tasks,
        summary=summary,
        bounds=_pooled_interval(summary),
        reliability=dict(sorted(Counter(task.reliability or "none" for task in tasks).items())),
        spent=reader.sum_spent(sweep.id, variant),
        notes=(),
    )
    return clean_report(attrs.evolve(report, notes=list_notes(report)), cleaner or Cleaner())


def _pooled_interval(summary: Figures) -> tuple[float, float] | None:
    if not summary.planned:
        return None
    return summary.passes / summary.planned, (summary.passes + summary.left_out) / summary.planned


class _Tally:
    """Running sums over planned runs."""

    def __init__(self) -> None:
        self.planned = self.passes = self.unfinished = self.again = self.judged = 0
        self.by_outcome: dict[str, Counter[str]] = {
            outcome: Counter() for outcome in ("fail", "budget_exceeded", "error", "skipped")
        }
        self.wall = array("d")
        self.turns = self.tool_calls = 0
        self.input = self.output = self.token_runs = 0
        self.cached = self.cached_input = self.cached_runs = 0
        self.compactions = Counter[str]()
        self.incidents: Counter[str] = Counter()
        self.verifiers: dict[tuple[str, str], Counter[str]] = {}
        self.first_not_passed: int | None = None
        self.examples: dict[str, str] = {}

    def add_run(self, run: RunRecord) -> None:
        """Count one planned run."""
        self.planned += 1
        if run.outcome is None:
            self.unfinished += 1
            return
        self.again += run.again
        if run.outcome == "pass":
            self.passes += 1
        else:
            self.by_outcome[run.outcome][run.reason or "verifier"] += 1
            if self.first_not_passed is None and run.outcome != "skipped":  # a skipped run has no events to show
                self.first_not_passed = run.position
        for name, times in run.detail.get("incidents", {}).items():
            self.incidents[name] += times
        for verdict in run.verdicts:
            self._count_verdict(verdict)
        if run.outcome == "error":
            self.examples.setdefault(run.reason or "", str(run.detail.get("message", "")) or _first_problem(run))
        if run.judged:
            self._add_measurements(run)

    def _count_verdict(self, verdict: Verdict) -> None:
        counts = self.verifiers.setdefault((verdict.verifier, verdict.kind), Counter())
        counts[verdict.verdict] += 1
        counts["tampered"] += bool(verdict.detail.get("tampered"))

    def _add_measurements(self, run: RunRecord) -> None:
        figures = run.measured
        self.judged += 1
        if figures.wall_ms is not None:
            self.wall.append(figures.wall_ms)
        self.turns += figures.turns or 0
        self.tool_calls += figures.tool_calls or 0
        if figures.input_tokens is not None and figures.output_tokens is not None:
            self.input += figures.input_tokens
            self.output += figures.output_tokens
            self.token_runs += 1
        partial = bool(run.detail.get("cachedPartial"))
        if figures.cached_tokens is not None and figures.input_tokens is not None and not partial:
            self.cached += figures.cached_tokens
            self.cached_input += figures.input_tokens
            self.cached_runs += 1
        if compaction := run.detail.get("compaction"):
            self.compactions["runs"] += 1
            self.compactions["calls"] += compaction["calls"]
            if "input" in compaction and "output" in compaction:
                self.compactions["reporting"] += 1
                self.compactions["input"] += compaction["input"]
                self.compactions["output"] += compaction["output"]

    def to_figures(self, *, replay: bool, price: Rates) -> Figures:
        """Return the sums as `Figures`."""
        return Figures(
            planned=self.planned,
            passes=self.passes,
            failed=_sort_counts(self.by_outcome["fail"]),
            budget_exceeded=_sort_counts(self.by_outcome["budget_exceeded"]),
            errored=_sort_counts(self.by_outcome["error"]),
            skipped=_sort_counts(self.by_outcome["skipped"]),
            unfinished=self.unfinished,
            again=self.again,
            judged=self.judged,
            success_rate=rates.success_rate(self.passes, self.judged),
            wilson=None if replay else rates.wilson_interval(self.passes, self.judged),
            low_power=not replay and rates.has_low_power(self.judged),
            measured=self._sum_measured(),
            cached=self._sum_cached(),
            compaction=self._sum_compaction(),
            cost_usd=self._estimate_cost(price),
            incidents=_sort_counts(self.incidents),
        )

    def _sum_measured(self) -> Measured:
        complete = self.token_runs == self.judged > 0
        timed = len(self.wall) == self.judged > 0
        return Measured(
            wall_median_ms=rates.sample_median(self.wall),
            wall_variance_ms2=rates.sample_variance(self.wall),
            input_tokens=self.input if complete else None,
            output_tokens=self.output if complete else None,
            token_runs=self.token_runs,
            turns=self.turns,
            tool_calls=self.tool_calls,
            tokens_per_success=rates.per_success(self.input + self.output, self.passes) if complete else None,
            wall_ms_per_success=rates.per_success(sum(self.wall), self.passes) if timed else None,
        )

    def _sum_cached(self) -> CachedInput | None:
        if not self.cached_runs:
            return None
        return CachedInput(
            tokens=self.cached,
            input_tokens=self.cached_input,
            ratio=rates.cached_ratio([(self.cached, self.cached_input, False)]),
            runs_reporting=self.cached_runs,
        )

    def _sum_compaction(self) -> Compaction | None:
        sums = self.compactions
        if not sums["runs"]:
            return None
        complete = sums["reporting"] == sums["runs"]
        return Compaction(
            runs=sums["runs"],
            calls=sums["calls"],
            input_tokens=sums["input"] if complete else None,
            output_tokens=sums["output"] if complete else None,
        )

    def _estimate_cost(self, price: Rates) -> float | None:
        if price is None or not self.token_runs == self.judged > 0:
            return None
        return float((self.input * price[0] + self.output * price[1]) / 1_000_000)

    def to_task_report(self, cell: CellRecord, variant: str, *, replay: bool, price: Rates) -> TaskReport:
        """Return the sums as the report of one task under one variant."""
        return TaskReport(
            id=cell.case_id,
            variant=variant,
            figures=self.to_figures(replay=replay, price=price),
            pass_at_k=self.passes > 0 if self.judged else None,
            pass_hat_k=self.passes == self.judged if self.judged else None,
            reliability=rates.reliability_class(self.judged, self.passes),
            verifiers=tuple(_list_verifiers(self.verifiers.items())),
            first_not_passed=self.first_not_passed,
            examples=dict(sorted(self.examples.items())),
        )


def _sort_counts(counts: Counter[str]) -> Mapping[str, int]:
    return dict(sorted(counts.items()))


def _list_verifiers(counts: Iterable[tuple[tuple[str, str], Counter[str]]]) -> Sequence[VerifierTally]:
    return [
        VerifierTally(
            id=name,
            kind=kind,
            passed=times["pass"],
            failed=times["fail"],
            errored=times["error"],
            tampered=times["tampered"],
        )
        for (name, kind), times in sorted(counts)
    ]


def _first_problem(run: RunRecord) -> str:
    """Return the message of the first verifier that ended in an error."""
    for verdict in run.verdicts:
        if verdict.verdict == "error":
            reason = verdict.detail.get("message") or verdict.detail.get("reason") or "no reason given"
            return f"{verdict.verifier}: {reason}"
    return ""
