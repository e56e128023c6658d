"""The row values at the store's edge: a sweep's plan, claims, endings of attempts, and rows read back.

Times are integer microseconds UTC, money integer nano-USD, durations integer milliseconds. A missing
value is None, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import attrs

from store.measurements import Measurements

if TYPE_CHECKING:
    from store.events import Json


Outcome = Literal["pass", "fail", "budget_exceeded", "error", "skipped"]
VerdictWord = Literal["pass", "fail", "error"]
DecisionStatus = Literal["ok", "abstain", "error"]
ResultBasis = Literal["run", "retry", "verify", "rejudge", "invalidate"]


@attrs.frozen(kw_only=True)
class CellRow:
    """A planned cell: one case under one variant, with its identity document as canonical JSON."""

    digest: bytes
    fingerprint: str
    fingerprint_version: int
    config_hash: str
    suite_id: str
    suite_version: str
    case_id: str
    case_version: str
    variant: str
    target: str
    model: str
    pack: str = "none"
    profile: str = "none"
    document: str


@attrs.frozen(kw_only=True)
class PlannedRun:
    """A planned run: one repetition of one cell, at its position in the run order."""

    position: int
    cell: int
    """Index into the plan's cells."""
    repetition: int
    """Counts from 0."""
    pair: int
    """Number of the pair group: the same case and repetition under every variant. A process claims whole groups."""


@attrs.frozen(kw_only=True)
class NewSweep:
    """A sweep's plan, stored before its first run starts."""

    name: str
    command: str
    purpose: str = "sweep"
    suite_id: str
    mode: Literal["live", "replay", "offline"]
    seed: int
    repetitions: int
    planned_at: int
    conditions: Mapping[str, Json]
    cells: tuple[CellRow, ...]
    runs: tuple[PlannedRun, ...]


@attrs.frozen(kw_only=True)
class WorkerRow:
    """A worker process. `boot` (boot id) and `born` (start, in kernel clock ticks) detect a reused pid."""

    host: str
    pid: int
    boot: str
    born: int
    version: str
    started_at: int


@attrs.frozen(kw_only=True)
class Claim:
    """A claim on a run: the attempt that this process may execute. `number` is its fencing token."""

    attempt_id: int
    run_id: int
    sweep_id: int
    cell_id: int
    case_id: str
    variant: str
    position: int
    repetition: int
    pair: int
    number: int
    supersedes: int | None
    """Id of the result that this attempt's result will replace, read at the time of the claim."""
    claimed_at: int = 0
    """Time of the claim, in microseconds UTC; event times are milliseconds since then."""


@attrs.frozen(kw_only=True)
class Verdict:
    """A verifier's verdict on one attempt, with its evidence in `detail`."""

    verifier: str
    kind: str
    verdict: VerdictWord
    score: float | None = None
    detail: Mapping[str, Json] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class FileChange:
    """A file that the attempt changed. `content` is None if the file was deleted or is not a regular file."""

    path: str
    change: Literal["added", "changed", "deleted"]
    mode: int | None = None
    link: str | None = None
    content: bytes | None = None


@attrs.frozen(kw_only=True)
class Ending:
    """The ending of an attempt: its outcome, cost and measurements, and whether its run is to be repeated."""

    claim: Claim
    outcome: Outcome
    reason: str | None = None
    judged: bool
    again: bool
    composite: float | None = None
    started_at: int | None = None
    ended_at: int
    measured: Measurements = attrs.field(factory=Measurements)
    decision_status: DecisionStatus | None = None
    """The status of a decision flow; None for an attempt without one."""
    detail: Mapping[str, Json] = attrs.field(factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    changes: tuple[FileChange, ...] = ()


@attrs.frozen(kw_only=True)
class Amount:
    """An amount of spending: requests, tokens and nano-USD."""

    calls: int = 0
    tokens: int = 0
    nusd: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(calls=self.calls + other.calls, tokens=self.tokens + other.tokens, nusd=self.nusd + other.nusd)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(calls=self.calls - other.calls, tokens=self.tokens - other.tokens, nusd=self.nusd - other.nusd)


@attrs.frozen(kw_only=True)
class Caps:
    """The spending caps of a whole sweep; None means no cap."""

    calls: int | None = None
    tokens: int | None = None
    nusd: int | None = None


# --- read back ------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class SweepRow:
    """A stored sweep."""

    id: int
    name: str
    command: str
    purpose: str
    suite_id: str
    mode: str
    seed: int
    repetitions: int
    planned_at: int
    runs: int
    """Number of planned runs."""
    conditions: Mapping[str, Json]


@attrs.frozen(kw_only=True)
class CellRecord:
    """A stored cell, without its identity document."""

    id: int
    suite_id: str
    suite_version: str
    case_id: str
    case_version: str
    variant: str
    target: str
    model: str
    fingerprint: str
    config_hash: str


@attrs.frozen(kw_only=True)
class RunRecord:
    """A planned run with its current result, if any, and the measurements of the attempt behind that result."""

    run_id: int
    position: int
    repetition: int
    cell_id: int
    attempts: int
    """Number of attempts claimed so far."""
    attempt_id: int | None = None
    attempt_number: int | None = None
    outcome: Outcome | None = None
    """None if the run has no result yet."""
    reason: str | None = None
    judged: bool = False
    again: bool = False
    composite: float | None = None
    basis: ResultBasis | None = None
    started_at: int | None = None
    ended_at: int | None = None
    measured: Measurements = attrs.field(factory=Measurements)
    decision_status: DecisionStatus | None = None
    detail: Mapping[str, Json] = attrs.field(factory=dict)
    verdicts: tuple[Verdict, ...] = ()


@attrs.frozen(kw_only=True)
class EventRow:
    """A stored event of an attempt; `at` is milliseconds since the attempt was claimed."""

    seq: int
    at: int
    kind: str
    payload: Mapping[str, Json]
