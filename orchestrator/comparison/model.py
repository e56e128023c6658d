"""The comparison as a value: every format shows these words and figures and computes none of its own.

Differences are candidate minus baseline. A figure that does not exist is None and says why, never 0.
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
"""Per run means per judged run; per success, all judged runs divided by the successes."""
MEASURED: tuple[Metric, ...] = (
    *("inputTokensPerRun", "outputTokensPerRun", "tokensPerRun", "tokensPerSuccess", "cachedInputRatio"),
    *("wallMsMedian", "wallMsPerSuccess"),
)
ESTIMATED: tuple[Metric, ...] = ("costUsdPerRun", "costUsdPerSuccess")


@attrs.define(slots=False)
class Incompatible(EvalctlError):
    """The sides are no two measurements of one thing; exit code 3."""

    baseline: str
    """The suite with its version."""
    candidate: str

    def __str__(self) -> str:
        return (
            f"these cannot be compared: the baseline measured {self.baseline}, the candidate {self.candidate}\n"
            "Only the same suite in the same version measures the same thing."
        )


@attrs.frozen(kw_only=True)
class Delta:
    """One figure on both sides."""

    baseline: float | None
    candidate: float | None
    delta: float | None
    why: str | None
    """Why there is no difference to tell; None where there is one."""


@attrs.frozen(kw_only=True)
class CaseDetail:
    """What other methods say about one task. Never the verdict."""

    newcombe: Interval | None
    """95 % interval for the difference of the two rates."""
    fisher_p: float | None
    """None where no test was made: low power, not comparable."""
    holm_p: float | None
    """Adjusted for all tests made in this comparison."""
    repetitions_needed: int | None
    """Judged runs a side with which the screen would see the observed difference with 80 % power; None: no difference
    was seen, or more than are planned."""


@attrs.frozen(kw_only=True)
class TaskComparison:
    """One task on both sides."""

    id: str
    baseline: Counts
    candidate: Counts
    verdict: ComparisonVerdict
    why: str | None
    """What keeps the verdict from being a direction; None where the intervals decided."""
    deltas: Mapping[Metric, Delta]
    detail: CaseDetail | None = None


@attrs.frozen(kw_only=True)
class Clustering:
    """How alike the repetitions of a case are on one side."""

    success_rate: float
    se: float | None
    """Standard error of the pooled rate, clustered by case."""
    icc: float | None
    design_effect: float | None
    """By how much a pooled interval's variance is too small for cases like these."""


@attrs.frozen(kw_only=True)
class PairedOutcomes:
    """Cases by what happened on either side, where each was judged once a side."""

    both: int
    only_candidate: int
    only_baseline: int
    neither: int
    newcombe: Interval | None
    mcnemar_p: float


@attrs.frozen(kw_only=True)
class SampleSize:
    """What it would have taken to see the observed difference over cases, with 80 % power."""

    variances: Variances
    smallest: float | None
    """The smallest true difference that these cases and repetitions show; None where they are too few to show any."""
    cases: int | None
    """With as many repetitions as there were; None where no difference was seen."""
    repetitions: int | None
    """A side, with as many cases as there were; None where no number would do, or no difference was seen."""
    buy_cases: bool
    """More repetitions no longer help much; more cases do."""


@attrs.frozen(kw_only=True)
class SuiteDetail:
    """What a suite's cases say together, case by case. Never the verdict."""

    cases: int
    """Judged on both sides."""
    left_out: tuple[str, ...]
    """Tasks on both sides that are not among them."""
    like_these: PairedT | None
    """About cases like these; None below two cases."""
    verdict: SuiteVerdict
    """What `like_these` comes to."""
    signflip_p: float | None
    """A check that assumes less; None from 20 cases on, where the interval needs none."""
    these: FixedDiff | None
    """About these cases and no others; None where one has fewer than two judged runs on a side."""
    baseline: Clustering | None
    candidate: Clustering | None
    outcomes: PairedOutcomes | None
    """None unless each case was judged exactly once a side."""
    needed: SampleSize | None
    """None below two cases."""
    tests: int
    """Fisher tests made."""
    survivors: int
    """Of these, tasks below 0.05 after Holm's adjustment."""


@attrs.frozen(kw_only=True)
class Comparison:
    """Two sides, compared."""

    baseline: Arm
    candidate: Arm
    replay: bool
    """Both sides play recordings, as replays and offline labs do: tasks are changed or unchanged, without intervals."""
    differences: Mapping[str, tuple[Json, Json]]
    """Conditions that differ: what was changed, if all went as meant."""
    tasks: tuple[TaskComparison, ...]
    """Those on both sides, sorted."""
    only_baseline: tuple[str, ...]
    only_candidate: tuple[str, ...]
    versions: Mapping[str, tuple[str, str]]
    """Tasks that are on both sides in different versions, and in no figure: they are not the same thing."""
    suite: TaskComparison
    """The tasks on both sides together, their runs pooled; its id is empty."""
    verdicts: Mapping[ComparisonVerdict, int]
    """Tasks by verdict."""
    errored: int
    """Runs in no rate because they ended in an error, on both sides."""
    gaps: StartGaps | None
    notes: tuple[str, ...]
    """What a reader must know before reading the verdicts."""
    limits: tuple[str, ...]
    """What the verdicts do not say; said with every comparison."""
    detail: SuiteDetail | None = None
