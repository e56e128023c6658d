"""A lab's report as a value: every format shows these figures and computes none of its own.

A figure that does not exist is None, never 0. Rates are over *judged* runs, those that were not skipped; what is in no
rate is counted beside them. What was broken, unstable or skipped is told by fixture and target, sorted.
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
    """What is known of a lab's sweep beside its runs."""

    sweep: str
    lab: str
    version: str
    mode: str
    """`offline` or `live`."""
    repeat: int
    seed: int = 0
    targets: tuple[TargetFacts, ...] = ()
    """In the order of `lab.yaml`: the first is what the others are compared with."""
    answering: tuple[str, ...] = ()
    """Models that said they answered, sorted."""
    conditions: Mapping[str, Json] = attrs.field(factory=dict)
    """The conditions of measurement; they hold times, and what changes from one machine to another."""
    spent: Amount | None = None
    """What every request came to, those of late and repeated attempts too; None offline, where there is none."""

    @property
    def sampled(self) -> bool:
        """Whether answers were drawn anew, so that intervals mean something."""
        return self.mode == "live"


@attrs.frozen(kw_only=True)
class Stability:
    """Fixtures whose repetitions all ended alike, in outcome and status."""

    fraction: float | None
    """Among the `repeated`; None without any."""
    same: int
    repeated: int
    """Fixtures with at least two judged repetitions."""
    single: int
    """Fixtures with one: they say nothing about stability."""


@attrs.frozen(kw_only=True)
class Latency:
    """Time of work of the judged runs that called a backend."""

    n: int
    p50_ms: float | None
    p95_ms: float | None


@attrs.frozen(kw_only=True)
class TargetCost:
    """What the runs that called a backend really cost, skipped ones too."""

    runs: int
    nusd: int | None
    """None where one of them has no known cost."""
    unknown: int
    """Runs without a known cost."""
    local: bool
    """The target costs nothing by definition."""


@attrs.frozen(kw_only=True)
class Calibration:
    """How far confidences were from being right. Right is a run in which every assertion held."""

    n: int
    """Judged runs with a confidence; the figures are over them."""
    silent: int
    """Judged runs without one."""
    right: int
    brier: float | None
    interval: Interval | None
    """95 %, of the mean over fixtures; None below five of them, and where nothing is sampled."""
    skill: float | None
    ece: float | None
    """None below 50 confidences, where it is mostly its own bias."""
    bins: tuple[CalibrationBin, ...]


@attrs.frozen(kw_only=True)
class Example:
    """What an assertion was over when it did not hold."""

    reason: str
    values: Json


@attrs.frozen(kw_only=True)
class BrokenAssertion:
    """One assertion of a fixture that did not hold."""

    assertion: str
    """Its place, such as `expect[0]`."""
    why: str
    cel: str
    runs: int
    """In how many runs."""
    examples: tuple[Example, ...]
    """Different ones, the first few in the order of repetitions."""
    different: int
    """How many different ones there were."""


@attrs.frozen(kw_only=True)
class FailingCase:
    """A fixture that did not pass every time."""

    case: str
    target: str
    failed: int
    judged: int
    broken: tuple[BrokenAssertion, ...]
    abstentions: Mapping[str, int]
    """Why failed runs abstained, and in how many of them."""
    errors: Mapping[str, int]
    """Why decisions failed, and in how many runs."""
    position: int | None
    """Of the first run that did not pass."""


@attrs.frozen(kw_only=True)
class UnstableCase:
    """A fixture whose repetitions ended differently."""

    case: str
    target: str
    endings: Mapping[str, int]
    """Judged runs by outcome and status, the most frequent first."""


@attrs.frozen(kw_only=True)
class SkippedRuns:
    """Runs that were skipped, and why."""

    case: str
    target: str
    reason: str
    message: str
    runs: int


@attrs.frozen(kw_only=True)
class TargetRow:
    """One capability against one target."""

    target: str
    planned: int
    judged: int
    passes: int
    success_rate: float | None
    wilson: Interval | None
    """95 %; None where nothing is sampled."""
    low_power: bool
    stability: Stability
    abstained: int
    """Judged runs that ended in an abstention."""
    errors: int
    """Judged runs whose decision failed."""
    infrastructure: Mapping[str, int]
    """Of these, runs that failed for what says nothing about how well is decided, by cause."""
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
    """One capability against every target that its fixtures were run against."""

    name: str
    cases: int
    rows: tuple[TargetRow, ...]
    failing: tuple[FailingCase, ...]
    unstable: tuple[UnstableCase, ...]
    skipped: tuple[SkippedRuns, ...]


@attrs.frozen(kw_only=True)
class TargetComparison:
    """Two targets on identical cases. Differences are candidate minus baseline."""

    capability: str | None
    """None: all of them together."""
    baseline: str
    candidate: str
    cases: int
    """Fixtures judged on both sides."""
    left_out: int
    """Fixtures of either that are not among them."""
    like_these: PairedT | None
    """About cases like these; None below two cases, and where nothing is sampled."""
    verdict: SuiteVerdict | None
    """What it comes to; None where nothing is sampled."""
    signflip_p: float | None
    """A check that assumes less; None from 20 cases on, where the interval needs none."""
    differing: tuple[str, ...]
    """Fixtures with another share of passes on the one side than on the other."""


@attrs.frozen(kw_only=True)
class LabReport:
    """What a lab's runs say."""

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
    """What a reader must know before reading the figures."""

    @property
    def failed(self) -> int:
        """Judged runs in which an assertion did not hold."""
        return self.judged - self.passes
