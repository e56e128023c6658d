"""One side of a comparison, whatever it was read from.

What was not measured, or not by every judged run that a figure is about, is None and never 0.
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
"""Per verifier, sorted: its id, and how often it passed, failed, and could not run."""


@attrs.frozen(kw_only=True)
class Counts:
    """What the runs of a task came to, or those of several tasks together."""

    planned: int
    passes: int
    judged: int
    budget_exceeded: int
    """Judged, and not passing."""
    errored: int
    skipped: int
    unfinished: int
    input_tokens: int | None
    """Sum over the judged runs; None unless every one of them reported its tokens."""
    output_tokens: int | None
    wall_total_ms: float | None
    """Work of the judged runs together."""
    wall_median_ms: float | None
    cached_ratio: float | None
    """Share of input from a cache, over the judged runs that reported it in every turn."""
    cached_runs: int
    cost_usd: float | None
    """Estimated."""
    compacted: int
    """Judged runs whose context was compacted."""
    incidents: Mapping[str, int]
    verifiers: VerifierTallies = ()

    @property
    def success_rate(self) -> float | None:
        """Passes among the judged."""
        return rates.success_rate(self.passes, self.judged)

    @property
    def wilson(self) -> Interval | None:
        """The 95 % interval of the rate, were the runs sampled."""
        return rates.wilson_interval(self.passes, self.judged)


@attrs.frozen(kw_only=True)
class Arm:
    """One side."""

    name: str
    """As it was named: a report's path, `SWEEP` or `SWEEP:VARIANT` in full."""
    sweep: str
    variant: str
    suite_id: str
    suite_version: str
    mode: str
    conditions: Mapping[str, Json]
    """As reports tell them."""
    tasks: Mapping[str, Counts]
    whole: Counts
    versions: Mapping[str, str] = attrs.field(factory=dict)
    """By task, where tasks have versions of their own; nothing where the source does not tell."""
    content: Mapping[str, str] | None = None
    """Hashes of the suite's files, by path; None where the source does not tell."""

    @property
    def is_flow(self) -> bool:
        """Whether a decision flow was measured, and no agent."""
        return self.conditions.get("subject") == FLOW


def pool_counts(arm: Arm, chosen: Collection[str]) -> Counts:
    """The counts of the *chosen* tasks together.

    A median and a pooled ratio are known for all of the arm's tasks only; of some they are None.
    """
    return arm.whole if len(chosen) == len(arm.tasks) else sum_counts(arm.tasks[name] for name in chosen)


def sum_counts(counts: Iterable[Counts]) -> Counts:
    """Several tasks together, without what cannot be told from their counts: a median and a pooled ratio."""
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
    """The sum, where nothing is missing and there is something."""
    known = list(values)
    numbers = [value for value in known if value is not None]
    return sum(numbers) if numbers and len(numbers) == len(known) else None


def _sum_known(values: Iterable[float | None]) -> float | None:
    known = list(values)
    numbers = [value for value in known if value is not None]
    return math.fsum(numbers) if numbers and len(numbers) == len(known) else None
