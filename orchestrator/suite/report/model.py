"""The report as a value: every format shows these figures and computes none of its own.

A figure that does not exist is None, never 0. Rates are over *judged* runs (pass, fail, budget_exceeded); what is in
no rate is counted beside them by cause.
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
    input_tokens: int
    ratio: float | None
    runs_reporting: int


@attrs.frozen(kw_only=True)
class Compaction:
    """Summaries of transcripts that grew too long, over the judged runs; in no other figure but the ledger's."""

    runs: int
    """Runs that needed one."""
    calls: int
    input_tokens: int | None
    """None unless every one of these runs reported all its tokens."""
    output_tokens: int | None


@attrs.frozen(kw_only=True)
class Measured:
    """What was measured over the judged runs. Never mixed with estimates."""

    wall_median_ms: float | None
    wall_variance_ms2: float | None
    """Sample variance; None below two runs."""
    input_tokens: int | None
    """Sum over the judged runs; None unless every one of them reported its tokens."""
    output_tokens: int | None
    token_runs: int
    """Judged runs that reported both."""
    turns: int
    tool_calls: int
    tokens_per_success: float | None
    """All tokens of the judged runs, failures included, divided by the successes."""
    wall_ms_per_success: float | None
    """The same for the time worked."""


@attrs.frozen(kw_only=True)
class Figures:
    """What holds for a task under a variant, and for all of them together."""

    planned: int
    passes: int
    failed: Mapping[str, int]
    """Failed runs by reason: `verifier`, or what the model did."""
    budget_exceeded: Mapping[str, int]
    """By budget."""
    errored: Mapping[str, int]
    """Infrastructure failures by cause; in no rate."""
    skipped: Mapping[str, int]
    """By reason; in no rate."""
    unfinished: int
    """Planned runs without a result."""
    again: int
    """Runs with a result that `resume` would run again."""
    judged: int
    success_rate: float | None
    wilson: Interval | None
    """95 %; None without judged runs, and in replay, where nothing is sampled."""
    low_power: bool
    measured: Measured
    cached: CachedInput | None
    """None where no judged run reported it."""
    compaction: Compaction | None
    """None where no judged run needed one."""
    cost_usd: float | None
    """Estimated; None without both rates, or where tokens are missing."""
    incidents: Mapping[str, int]

    @property
    def left_out(self) -> int:
        """Planned runs that are in no rate."""
        return self.planned - self.judged


@attrs.frozen(kw_only=True)
class VerifierTally:
    """What one verifier said over the judged and errored runs of a task."""

    id: str
    kind: str
    passed: int
    failed: int
    errored: int
    tampered: int
    """Runs that had changed a check file; they were judged with the pristine one."""


@attrs.frozen(kw_only=True)
class TaskReport:
    """One task under one variant."""

    id: str
    variant: str
    figures: Figures
    pass_at_k: bool | None
    """At least one of the judged runs passed; k is their number."""
    pass_hat_k: bool | None
    """All of them passed."""
    reliability: ReliabilityClass | None
    verifiers: tuple[VerifierTally, ...]
    first_not_passed: int | None
    """Position of the first run, in the stored order, that has a result and did not pass."""
    examples: Mapping[str, str]
    """A message for each cause of error, that of the first run in the stored order."""


@attrs.frozen(kw_only=True)
class Report:
    """What a sweep's rows say."""

    sweep: str
    conditions: Mapping[str, Json]
    """The conditions of measurement, under the names that the report's files use."""
    replay: bool
    tasks: tuple[TaskReport, ...]
    """Sorted by task and variant."""
    summary: Figures
    bounds: Interval | None
    """The success rate if every run left out had failed, or passed; None without planned runs."""
    reliability: Mapping[str, int]
    """Tasks by reliability, and `none` where nothing was judged."""
    spent: Amount
    """What every request of the sweep came to, those of late and repeated attempts too."""
    notes: tuple[str, ...]
    """What a reader must know before reading the figures."""
