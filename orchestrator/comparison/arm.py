"""One side of a comparison, independent of its source.

A figure that was not measured by every judged run it covers is None, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

import attrs

from orchestrator.reports.conditions import FLOW
from store.events import Json
from store.stats import rates
from store.stats.rates import Interval

VerifierTallies = tuple[tuple[str, int, int, int], ...]
"""Per verifier, sorted: its id, and how often it passed, failed and ended in an error."""


@attrs.frozen(kw_only=True)
class Counts:
    """Summed results and measurements of the runs of one task, or of several."""

    planned: int
    passes: int
    judged: int
    budget_exceeded: int
    """Judged runs that exhausted a budget; they do not pass."""
    errored: int
    skipped: int
    unfinished: int
    input_tokens: int | None
    """Sum over the judged runs; None unless every one of them reported its tokens."""
    output_tokens: int | None
    wall_total_ms: float | None
    """Total wall time of the judged runs."""
    wall_median_ms: float | None
    cached_ratio: float | None
    """Share of input tokens served from a prompt cache, over the judged runs that reported it in every turn."""
    cached_runs: int
    cost_usd: float | None
    """Estimated cost in USD."""
    compacted: int
    """Judged runs whose context was compacted."""
    incidents: Mapping[str, int]
    verifiers: VerifierTallies = ()

    @property
    def success_rate(self) -> float | None:
        """Passes divided by judged runs; None without judged runs."""
        return rates.success_rate(self.passes, self.judged)

    @property
    def wilson(self) -> Interval | None:
        """95 % Wilson interval of the success rate; meaningful only for sampled runs."""
        return rates.wilson_interval(self.passes, self.judged)


@attrs.frozen(kw_only=True)
class Arm:
    """One side (arm) of a comparison."""

    name: str
    """Name of the side: a report's path, `SWEEP` or `SWEEP:VARIANT`, never abbreviated."""
    sweep: str
    variant: str
    suite_id: str
    suite_version: str
    mode: str
    conditions: Mapping[str, Json]
    """Conditions of measurement, under the names that reports use."""
    tasks: Mapping[str, Counts]
    whole: Counts
    versions: Mapping[str, str] = attrs.field(factory=dict)
    """Version by task, for sources that store one per task; otherwise empty."""
    content: Mapping[str, str] | None = None
    """Hashes of the suite's files by path; None if the source has none."""

    @property
    def is_flow(self) -> bool:
        """Return whether the side measured a decision flow rather than an agent."""
        return self.conditions.get("subject") == FLOW


def pool_counts(arm: Arm, names: Collection[str]) -> Counts:
    """Pool the counts of the tasks in *names*.

    The median and the pooled ratio are known only for all of the arm's tasks; for a subset they are None.
    """
    return arm.whole if len(names) == len(arm.tasks) else sum_counts(arm.tasks[name] for name in names)


def sum_counts(counts: Iterable[Counts]) -> Counts:
    """Sum the counts of several tasks. The median and the pooled ratio do not follow from counts and are None."""
    tasks = list(counts)
    judged = [task for task in tasks if task.judged]
    incidents: dict[str, int] = {}
    for task in tasks:
        for name, times in task.incidents.items():
            incidents[name] = incidents.get(name, 0) + times
    return Counts(
        planned=sum(task.planned for task in tasks),
        passes=sum(task.passes for task in tasks),
        judged=sum(task.judged for task in tasks),
        budget_exceeded=sum(task.budget_exceeded for task in tasks),
        errored=sum(task.errored for task in tasks),
        skipped=sum(task.skipped for task in tasks),
        unfinished=sum(task.unfinished for task in tasks),
        input_tokens=_sum_whole(task.input_tokens for task in judged),
        output_tokens=_sum_whole(task.output_tokens for task in judged),
        wall_total_ms=_sum_known(task.wall_total_ms for task in judged),
        wall_median_ms=None,
        cached_ratio=None,
        cached_runs=sum(task.cached_runs for task in tasks),
        cost_usd=_sum_known(task.cost_usd for task in judged),
        compacted=sum(task.compacted for task in tasks),
        incidents=dict(sorted(incidents.items())),
    )


def _sum_whole(values: Iterable[int | None]) -> int | None:
    """Return the sum; None if a value is missing or there is none."""
    known = list(values)
    numbers = [value for value in known if value is not None]
    return sum(numbers) if numbers and len(numbers) == len(known) else None


def _sum_known(values: Iterable[float | None]) -> float | None:
    known = list(values)
    numbers = [value for value in known if value is not None]
    return math.fsum(numbers) if numbers and len(numbers) == len(known) else None
