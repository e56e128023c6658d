"""Reads a side from a sweep's stored rows with one grouped query, never run by run."""

from __future__ import annotations

import statistics
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import attrs

from orchestrator.comparison.arm import Arm, Counts, VerifierTallies
from orchestrator.reports.conditions import conditions_of, rates_of
from orchestrator.text import one_line
from store.documents.structure import suggest_nearest
from store.errors import UsageError
from store.events import Json
from store.rows import CellRecord, SweepRow
from store.stats import rates
from store.stats.compare import PLAYED_MODES
from store.tallies import CellTally, VerifierCount

if TYPE_CHECKING:
    from store.sql.reader import Reader

Rates = tuple[Decimal, Decimal] | None
"""USD per million input and output tokens."""
MAX_NAMED_ARMS = 10
"""Arms that an error message lists."""
ConditionsOf = Callable[[SweepRow, Sequence[CellRecord], Sequence[str], Sequence[str]], dict[str, Json]]
"""Returns the conditions of measurement; see `orchestrator.reports.conditions.conditions_of`."""


@attrs.frozen(kw_only=True)
class SideWords:
    """Words and conditions that depend on the kind of sweep of a side."""

    noun: str = "variant"
    """Noun for one of the configurations that such a sweep compares."""
    conditions_of: ConditionsOf = conditions_of


SUITE_WORDS = SideWords()
"""Words of an agent suite."""


def read_stored_arm(reader: Reader, sweep: SweepRow, variant: str | None, words: SideWords = SUITE_WORDS) -> Arm:
    """Read the arm *variant* of *sweep*, or its only arm; *words* are those of the sweep's kind.

    Raises:
        UsageError: there is no such variant, there are several and none was named, or a task was planned for several
            targets, so that its runs belong to several sides.
    """
    cells = reader.list_cells(sweep.id, variant) or reader.list_cells(sweep.id)
    chosen = _choose_variant(sweep, sorted({cell.variant for cell in cells}), variant, words.noun)
    chosen_cells = {cell.id: cell for cell in cells if cell.variant == chosen}
    _check_one_cell_per_task(sweep.name, chosen_cells.values())
    price = rates_of(sweep.conditions)
    verdicts = _tally_verifiers(reader.count_verdicts(sweep.id)) if sweep.mode in PLAYED_MODES else {}
    sums = _Sums(price)
    tasks: dict[str, Counts] = {}
    models: set[str] = set()
    for tally in reader.iterate_cell_tallies(sweep.id, chosen_cells):
        tasks[chosen_cells[tally.cell_id].case_id] = _cell_counts(tally, price, verdicts.get(tally.cell_id, ()))
        sums.add_cell(tally)
        models.update(tally.models)
    versions = sorted({worker.version for worker in reader.list_workers(sweep.id)})
    planned = [chosen_cells[cell] for cell in sorted(chosen_cells)]
    return Arm(
        name=f"{sweep.name}:{chosen}" if chosen else sweep.name,
        sweep=sweep.name,
        variant=chosen,
        suite_id=sweep.suite_id,
        suite_version=planned[0].suite_version if planned else "",
        mode=sweep.mode,
        conditions=words.conditions_of(sweep, planned, versions, sorted(models)),
        tasks=dict(sorted(tasks.items())),
        whole=sums.to_counts(),
        versions={cell.case_id: cell.case_version for cell in planned},
        content=_content_hashes(sweep.conditions),
    )


def _choose_variant(sweep: SweepRow, variants: Sequence[str], wanted: str | None, noun: str) -> str:
    names = ", ".join(f"{sweep.name}:{one_line(name)}" for name in variants[:MAX_NAMED_ARMS] if name)
    if wanted is None:
        if len(variants) > 1:
            raise UsageError(
                f"{sweep.name} has {len(variants)} {noun}s; a side is one of them", f"Name one of them: {names}"
            )
        return variants[0] if variants else ""
    if wanted not in variants:
        has = f"It has {names}{suggest_nearest(wanted, variants)}." if names else "It has none: type its name alone."
        raise UsageError(f"{sweep.name} has no {noun} {wanted!r}", has)
    return wanted


def _check_one_cell_per_task(sweep: str, cells: Iterable[CellRecord]) -> None:
    counts = Counter(cell.case_id for cell in cells)
    doubled = [name for name, times in counts.items() if times > 1]
    if doubled:
        raise UsageError(f"{sweep} planned task {one_line(doubled[0])!r} for several targets, but a side has one")


class _Sums:
    """Running sums over all tasks of an arm, with the wall time of each run."""

    def __init__(self, price: Rates) -> None:
        self.price = price
        self.by: Counter[str] = Counter()
        self.incidents: Counter[str] = Counter()
        self.walls = array("d")

    def add_cell(self, tally: CellTally) -> None:
        """Add one task."""
        for name in (
            *("planned", "finished", "passes", "judged", "budget_exceeded", "errored", "skipped", "compacted"),
            *("input_tokens", "output_tokens", "token_runs", "cached_tokens", "cached_input", "cached_runs"),
        ):
            self.by[name] += getattr(tally, name)
        self.incidents.update(tally.incidents)
        self.walls.extend(tally.walls_ms)

    def to_counts(self) -> Counts:
        """Return the sums as `Counts`."""
        names = ("planned", "finished", "passes", "judged", "budget_exceeded", "errored", "skipped", "compacted")
        tokens = ("input_tokens", "output_tokens", "token_runs", "cached_tokens", "cached_input", "cached_runs")
        whole = CellTally(
            cell_id=0,
            **{name: self.by[name] for name in (*names, *tokens)},
            walls_ms=(),
            incidents=self.incidents,
            models=(),
        )
        return _cell_counts(whole, self.price, (), walls=self.walls)


def _cell_counts(
    tally: CellTally, price: Rates, verifiers: VerifierTallies, walls: Sequence[float] | None = None
) -> Counts:
    times = tally.walls_ms if walls is None else walls
    reported = tally.token_runs == tally.judged > 0
    cost = None
    if reported and price is not None:
        cost = float((tally.input_tokens * price[0] + tally.output_tokens * price[1]) / 1_000_000)
    return Counts(
        planned=tally.planned,
        passes=tally.passes,
        judged=tally.judged,
        budget_exceeded=tally.budget_exceeded,
        errored=tally.errored,
        skipped=tally.skipped,
        unfinished=tally.planned - tally.finished,
        input_tokens=tally.input_tokens if reported else None,
        output_tokens=tally.output_tokens if reported else None,
        wall_total_ms=sum(times) if len(times) == tally.judged > 0 else None,
        wall_median_ms=float(statistics.median(times)) if times else None,
        cached_ratio=rates.cached_ratio([(tally.cached_tokens, tally.cached_input, False)]),
        cached_runs=tally.cached_runs,
        cost_usd=cost,
        compacted=tally.compacted,
        incidents=dict(sorted(tally.incidents.items())),
        verifiers=verifiers,
    )


def _tally_verifiers(rows: Iterable[VerifierCount]) -> dict[int, VerifierTallies]:
    tallies: dict[int, dict[str, Counter[str]]] = {}
    for row in rows:
        tallies.setdefault(row.cell_id, {}).setdefault(row.verifier, Counter())[row.verdict] += row.count
    return {
        cell: tuple((name, times["pass"], times["fail"], times["error"]) for name, times in sorted(by.items()))
        for cell, by in tallies.items()
    }


def _content_hashes(conditions: Mapping[str, Json]) -> Mapping[str, str] | None:
    suite = conditions.get("suite")
    content = suite.get("content") if isinstance(suite, Mapping) else None
    return content if isinstance(content, Mapping) else None
