"""A lab's report as a value: every format shows these figures and computes none of its own.

A figure that does not exist is None, never 0. Rates are over *judged* runs, those that were not skipped; all others are
counted separately. Failing, unstable and skipped cases are sorted by case and target.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from store.events import Json
from store.rows import Amount
from store.stats.calibration import CalibrationBin
from store.stats.paired import PairedT, SuiteVerdict
from store.stats.rates import Interval


@attrs.frozen(kw_only=True)
class TargetFacts:
    """A target as the lab describes it."""

    id: str
    backend: str | None = None
    model: str | None = None
    local: bool = False


@attrs.frozen(kw_only=True)
class LabFacts:
    """The facts about a lab's sweep as a whole, without its runs."""

    sweep: str
    lab: str
    version: str
    mode: str
    """`offline` or `live`."""
    repeat: int
    seed: int = 0
    targets: tuple[TargetFacts, ...] = ()
    """In the order of `lab.yaml`; the first is the baseline of comparisons."""
    answering: tuple[str, ...] = ()
    """Models that answers name as their author, sorted."""
    conditions: Mapping[str, Json] = attrs.field(factory=dict)
    """The conditions of measurement, which include times and properties of the machine."""
    spent: Amount | None = None
    """The total of all requests, including late and repeated attempts; None offline."""

    @property
    def sampled(self) -> bool:
        """Return whether answers were sampled, so that intervals are meaningful."""
        return self.mode == "live"


@attrs.frozen(kw_only=True)
class Stability:
    """Stability: cases whose repetitions all ended with the same outcome and status."""

    fraction: float | None
    """`same` / `repeated`; None if `repeated` is 0."""
    same: int
    repeated: int
    """Cases with at least two judged repetitions."""
    single: int
    """Cases with one judged repetition, which say nothing about stability."""


@attrs.frozen(kw_only=True)
class Latency:
    """The latency of the judged runs that called a backend, in milliseconds, without waits at the gate."""

    n: int
    p50_ms: float | None
    p95_ms: float | None


@attrs.frozen(kw_only=True)
class TargetCost:
    """The real cost of the runs that called a backend, including skipped ones."""

    runs: int
    nusd: int | None
    """None if the cost of a run is unknown."""
    unknown: int
    """Runs without a known cost."""
    local: bool
    """All runs are of a local target, which costs nothing."""


@attrs.frozen(kw_only=True)
class Calibration:
    """The calibration of confidences: Brier score, ECE and reliability table.

    A run is right if every assertion held.
    """

    n: int
    """Judged runs with a confidence, over which all figures are."""
    silent: int
    """Judged runs without a confidence."""
    right: int
    brier: float | None
    interval: Interval | None
    """The 95 % interval of the mean Brier score over cases; None below five cases, and offline."""
    skill: float | None
    ece: float | None
    """The expected calibration error; None below 50 confidences, where its bias dominates."""
    bins: tuple[CalibrationBin, ...]


@attrs.frozen(kw_only=True)
class Example:
    """An example of the values for which an assertion did not hold."""

    reason: str
    values: Json


@attrs.frozen(kw_only=True)
class BrokenAssertion:
    """One assertion of a case that did not hold."""

    assertion: str
    """Its place in the fixture, such as `expect[0]`."""
    why: str
    cel: str
    runs: int
    """Runs in which it did not hold."""
    examples: tuple[Example, ...]
    """The first few different examples, in the order of repetitions."""
    different: int
    """The number of different examples."""


@attrs.frozen(kw_only=True)
class FailingCase:
    """A case with a judged run that did not pass."""

    case: str
    target: str
    failed: int
    judged: int
    broken: tuple[BrokenAssertion, ...]
    abstentions: Mapping[str, int]
    """Failed runs by the reason of their abstention."""
    errors: Mapping[str, int]
    """Failed runs by the error of their decision."""
    position: int | None
    """The position in the sweep of the first run that did not pass."""


@attrs.frozen(kw_only=True)
class UnstableCase:
    """A case whose repetitions ended differently."""

    case: str
    target: str
    endings: Mapping[str, int]
    """Judged runs by outcome and status, the most frequent first."""


@attrs.frozen(kw_only=True)
class SkippedRuns:
    """The skipped runs of a case with one reason."""

    case: str
    target: str
    reason: str
    message: str
    runs: int


@attrs.frozen(kw_only=True)
class TargetRow:
    """The figures of one capability under one target."""

    target: str
    planned: int
    judged: int
    passes: int
    success_rate: float | None
    wilson: Interval | None
    """The 95 % Wilson interval; None offline."""
    low_power: bool
    stability: Stability
    abstained: int
    """Judged runs that ended in an abstention."""
    errors: int
    """Judged runs whose decision failed."""
    infrastructure: Mapping[str, int]
    """Judged runs that ended in an infrastructure failure, by cause."""
    latency: Latency
    cost: TargetCost
    calibration: Calibration
    skipped: Mapping[str, int]
    """By reason; in no rate."""
    interrupted: Mapping[str, int]
    """Runs that were not judged and not skipped, by reason; in no rate."""
    unfinished: int
    """Planned runs without a result."""


@attrs.frozen(kw_only=True)
class CapabilityReport:
    """The report of one capability, with a row for each target."""

    name: str
    cases: int
    rows: tuple[TargetRow, ...]
    failing: tuple[FailingCase, ...]
    unstable: tuple[UnstableCase, ...]
    skipped: tuple[SkippedRuns, ...]


@attrs.frozen(kw_only=True)
class TargetComparison:
    """The paired comparison of two targets on identical cases. Differences are candidate minus baseline."""

    capability: str | None
    """None for all capabilities together."""
    baseline: str
    candidate: str
    cases: int
    """Cases judged on both sides."""
    left_out: int
    """Cases of either side that are not judged on both."""
    like_these: PairedT | None
    """The paired t test, which generalizes to cases like these; None below two cases, and offline."""
    verdict: SuiteVerdict | None
    """The verdict of the comparison; None offline."""
    signflip_p: float | None
    """The p-value of the sign-flip test, which assumes less; None from 20 cases on, where it is not needed."""
    differing: tuple[str, ...]
    """Cases whose shares of passes differ between the sides."""


@attrs.frozen(kw_only=True)
class LabReport:
    """The report of a lab's sweep."""

    facts: LabFacts
    capabilities: tuple[CapabilityReport, ...]
    comparisons: tuple[TargetComparison, ...]
    planned: int
    judged: int
    passes: int
    skipped: int
    again: int
    """Runs that `resume` would run."""
    notes: tuple[str, ...]
    """Sentences that a reader needs before the figures."""

    @property
    def failed(self) -> int:
        """Judged runs in which an assertion did not hold."""
        return self.judged - self.passes
