"""The comparison as a value: every format shows these words and figures and computes none of its own.

Differences are candidate minus baseline. A missing figure is None with a reason, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from orchestrator.comparison.arm import Arm, Counts
from store.errors import EvalctlError
from store.events import Json
from store.stats.compare import ComparisonVerdict
from store.stats.paired import FixedDiff, PairedT, SuiteVerdict
from store.stats.planning import Variances
from store.stats.rates import Interval
from store.tallies import StartGaps

Metric = Literal[
    "inputTokensPerRun",
    "outputTokensPerRun",
    "tokensPerRun",
    "tokensPerSuccess",
    "cachedInputRatio",
    "wallMsMedian",
    "wallMsPerSuccess",
    "costUsdPerRun",
    "costUsdPerSuccess",
]
"""Names of the compared figures.

*Per run* is per judged run; *per success* divides the total of all judged runs by the successes.
"""
MEASURED: tuple[Metric, ...] = (
    *("inputTokensPerRun", "outputTokensPerRun", "tokensPerRun", "tokensPerSuccess", "cachedInputRatio"),
    *("wallMsMedian", "wallMsPerSuccess"),
)
ESTIMATED: tuple[Metric, ...] = ("costUsdPerRun", "costUsdPerSuccess")


@attrs.define(slots=False)
class Incompatible(EvalctlError):
    """The sides measured different suites, or different versions of one; exit code 3."""

    baseline: str
    """Suite and version."""
    candidate: str

    def __str__(self) -> str:
        return (
            f"cannot compare: the baseline measured {self.baseline}, the candidate {self.candidate}\n"
            "Both sides must have measured the same version of the same suite."
        )


@attrs.frozen(kw_only=True)
class Delta:
    """One figure on both sides."""

    baseline: float | None
    candidate: float | None
    delta: float | None
    why: str | None
    """Reason for a missing difference; None if there is one."""


@attrs.frozen(kw_only=True)
class CaseDetail:
    """Further statistics of one task. They never change the verdict."""

    newcombe: Interval | None
    """95 % interval for the difference of the two rates (Newcombe)."""
    fisher_p: float | None
    """p value of Fisher's exact test; None if no test was made (low power, or not comparable)."""
    holm_p: float | None
    """The p value adjusted by Holm for all tests made in this comparison."""
    repetitions_needed: int | None
    """Judged runs per side with which the screen detects the observed difference with 80 % power; None if there is no
    difference, or the number is beyond the planner's limit."""


@attrs.frozen(kw_only=True)
class TaskComparison:
    """One task on both sides."""

    id: str
    baseline: Counts
    candidate: Counts
    verdict: ComparisonVerdict
    why: str | None
    """Reason for a verdict without a direction; None if the intervals decided."""
    deltas: Mapping[Metric, Delta]
    detail: CaseDetail | None = None


@attrs.frozen(kw_only=True)
class Clustering:
    """Clustering of repetitions by case on one side."""

    success_rate: float
    se: float | None
    """Standard error of the pooled rate, clustered by case."""
    icc: float | None
    """Intraclass correlation of the repetitions of a case."""
    design_effect: float | None
    """Factor by which a pooled interval's variance is too small for cases like these."""


@attrs.frozen(kw_only=True)
class PairedOutcomes:
    """Cases counted by their outcome on both sides; each was judged once per side."""

    both: int
    only_candidate: int
    only_baseline: int
    neither: int
    newcombe: Interval | None
    """95 % interval for the difference (Newcombe, paired)."""
    mcnemar_p: float
    """p value of McNemar's exact test."""


@attrs.frozen(kw_only=True)
class SampleSize:
    """Sample size that detects the observed mean difference over cases with 80 % power."""

    variances: Variances
    smallest: float | None
    """Smallest true difference that these cases and repetitions detect; None if they are too few for any."""
    cases: int | None
    """Cases needed at the present repetitions; None if there is no difference."""
    repetitions: int | None
    """Repetitions per side needed with the present cases; None if no number suffices, or there is no difference."""
    buy_cases: bool
    """True if more cases help and more repetitions hardly do."""


@attrs.frozen(kw_only=True)
class SuiteDetail:
    """Further statistics of the whole suite, paired by case. They never change the verdict."""

    cases: int
    """Number of cases judged on both sides."""
    left_out: tuple[str, ...]
    """Tasks on both sides that were not judged on both."""
    like_these: PairedT | None
    """Paired t test that generalizes to cases like these; None below two cases."""
    verdict: SuiteVerdict
    """Verdict of `like_these`."""
    sign_flip_p: float | None
    """p value of the sign-flip test, a check with fewer assumptions; None from 20 cases on, where none is needed."""
    these: FixedDiff | None
    """Difference for exactly these cases; None if one of them has fewer than two judged runs on a side."""
    baseline: Clustering | None
    candidate: Clustering | None
    outcomes: PairedOutcomes | None
    """None unless each case was judged exactly once per side."""
    needed: SampleSize | None
    """None below two cases."""
    tests: int
    """Number of Fisher tests made."""
    survivors: int
    """Number of tests whose p value is below 0.05 after Holm's adjustment."""


@attrs.frozen(kw_only=True)
class Comparison:
    """Two sides with their differences and verdicts."""

    baseline: Arm
    candidate: Arm
    replay: bool
    """True if both sides play recordings (replay, offline lab): tasks are changed or unchanged, without intervals."""
    differences: Mapping[str, tuple[Json, Json]]
    """Conditions that differ, with both values; ideally only the one that was changed on purpose."""
    tasks: tuple[TaskComparison, ...]
    """Tasks on both sides, sorted."""
    only_baseline: tuple[str, ...]
    only_candidate: tuple[str, ...]
    versions: Mapping[str, tuple[str, str]]
    """Tasks on both sides in different versions. No figure includes them, because they are different tasks."""
    suite: TaskComparison
    """All tasks on both sides with their runs pooled; its id is empty."""
    verdicts: Mapping[ComparisonVerdict, int]
    """Number of tasks per verdict."""
    errored: int
    """Runs of both sides that ended in an error; they are in no rate."""
    gaps: StartGaps | None
    notes: tuple[str, ...]
    """Remarks to read before the verdicts."""
    limits: tuple[str, ...]
    """Limits of the verdicts, printed with every comparison."""
    detail: SuiteDetail | None = None
    """None unless further statistics were requested."""
