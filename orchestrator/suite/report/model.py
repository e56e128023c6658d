"""The report as a value: every format shows these figures and computes none of its own.

A missing figure is None, never 0. Rates are over *judged* runs (pass, fail, budget_exceeded); all other
runs are in no rate and are counted by cause.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from store.events import Json
from store.rows import Amount
from store.stats.rates import Interval, ReliabilityClass


@attrs.frozen(kw_only=True)
class CachedInput:
    """Input served from a provider's prompt cache, over the judged runs that reported it in every turn."""

    tokens: int
    """Input tokens served from the cache."""
    input_tokens: int
    """All input tokens of the same runs."""
    ratio: float | None
    runs_reporting: int
    """Judged runs that reported it."""


@attrs.frozen(kw_only=True)
class Compaction:
    """Compactions of transcripts over the judged runs. Of all other figures only `Report.spent` includes them."""

    runs: int
    """Runs with a compaction."""
    calls: int
    input_tokens: int | None
    """None unless all these runs reported all their tokens."""
    output_tokens: int | None


@attrs.frozen(kw_only=True)
class Measured:
    """Measurements over the judged runs, without any estimate."""

    wall_median_ms: float | None
    wall_variance_ms2: float | None
    """Sample variance; None below two runs."""
    input_tokens: int | None
    """Sum over the judged runs; None unless all of them reported their tokens."""
    output_tokens: int | None
    token_runs: int
    """Judged runs that reported input and output tokens."""
    turns: int
    tool_calls: int
    tokens_per_success: float | None
    """All tokens of the judged runs, failures included, divided by the successes."""
    wall_ms_per_success: float | None
    """Total wall time of the judged runs, divided by the successes."""


@attrs.frozen(kw_only=True)
class Figures:
    """Counts, rates and measurements of one task under one variant, or of all tasks."""

    planned: int
    passes: int
    failed: Mapping[str, int]
    """Failed runs by reason: `verifier`, or the model's fault."""
    budget_exceeded: Mapping[str, int]
    """Runs that exhausted a budget, by budget."""
    errored: Mapping[str, int]
    """Runs that ended in an error, by cause; in no rate."""
    skipped: Mapping[str, int]
    """Skipped runs by reason; in no rate."""
    unfinished: int
    """Planned runs without a result."""
    again: int
    """Runs with a result that `resume` would run again."""
    judged: int
    success_rate: float | None
    wilson: Interval | None
    """95 % Wilson interval; None without judged runs, and in replay, which samples nothing."""
    low_power: bool
    measured: Measured
    cached: CachedInput | None
    """None if no judged run reported it."""
    compaction: Compaction | None
    """None if no judged run needed one."""
    cost_usd: float | None
    """Estimated cost in USD; None without both rates, or if tokens are missing."""
    incidents: Mapping[str, int]

    @property
    def left_out(self) -> int:
        """Number of planned runs that are in no rate."""
        return self.planned - self.judged


@attrs.frozen(kw_only=True)
class VerifierTally:
    """Verdicts of one verifier over the judged and errored runs of a task."""

    id: str
    kind: str
    passed: int
    failed: int
    errored: int
    tampered: int
    """Runs that changed a check file; they were judged with the pristine one."""


@attrs.frozen(kw_only=True)
class TaskReport:
    """One task under one variant."""

    id: str
    variant: str
    figures: Figures
    pass_at_k: bool | None
    """pass@k: True if at least one of the k judged runs passed."""
    pass_hat_k: bool | None
    """pass^k: True if all k judged runs passed."""
    reliability: ReliabilityClass | None
    verifiers: tuple[VerifierTally, ...]
    first_not_passed: int | None
    """Position of the first run in the stored order with a result other than pass; skipped runs do not count."""
    examples: Mapping[str, str]
    """By cause of error: the message of the first such run in the stored order."""


@attrs.frozen(kw_only=True)
class Report:
    """Report of a sweep, or of one variant of it."""

    sweep: str
    conditions: Mapping[str, Json]
    """Conditions of measurement, under the names that report files use."""
    replay: bool
    tasks: tuple[TaskReport, ...]
    """Tasks, sorted by id and variant."""
    summary: Figures
    bounds: Interval | None
    """Bounds of the success rate if all runs left out had failed, or passed; None without planned runs."""
    reliability: Mapping[str, int]
    """Number of tasks per reliability class; `none` counts tasks without a judged run."""
    spent: Amount
    """Amount spent on all requests of the sweep, including late and repeated attempts."""
    notes: tuple[str, ...]
    """Remarks to read before the figures."""
