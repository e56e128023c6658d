"""Read-only records of a sweep: its attempts, counts, notices, commands and workers.

Times are integer microseconds UTC, durations integer milliseconds. A missing measurement is None, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from store.measurements import Measurements
from store.rows import Amount, Outcome, WorkerRow

if TYPE_CHECKING:
    from store.events import Json


@attrs.frozen(kw_only=True)
class AttemptRecord:
    """One attempt at a run and its ending. `outcome` is None while it runs, and for good if its process was killed."""

    attempt_id: int
    number: int
    worker_id: int
    claimed_at: int
    counts: bool
    """True if the run's current result comes from this attempt."""
    outcome: Outcome | None = None
    reason: str | None = None
    started_at: int | None = None
    ended_at: int | None = None
    measured: Measurements = attrs.field(factory=Measurements)
    detail: Mapping[str, Json] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class OutcomeCount:
    """The number of current results of a sweep with the same outcome, reason and flags."""

    outcome: Outcome
    reason: str | None
    judged: bool
    again: bool
    count: int


@attrs.frozen(kw_only=True)
class NoticeRow:
    """A notice: an event of the sweep itself rather than of one attempt."""

    id: int
    worker_id: int | None
    at: int
    kind: str
    payload: Mapping[str, Json]


@attrs.frozen(kw_only=True)
class CommandRow:
    """A command that a person gave to a sweep: pause, continue, cancel, raise a cap or acknowledge."""

    id: int
    verb: str
    who: str
    why: str
    payload: Mapping[str, Json]
    at: int


@attrs.frozen(kw_only=True)
class RunningAttempt:
    """A running attempt: unfinished, in a process that holds a lease, with its most recent event."""

    attempt_id: int
    position: int
    number: int
    worker_id: int
    claimed_at: int
    at: int | None
    """Milliseconds from the claim to the event; None if the attempt has no event yet and is waiting to start."""
    kind: str | None
    payload: Mapping[str, Json]


@attrs.frozen(kw_only=True)
class WorkerState:
    """A worker process that has claimed runs of a sweep, with its lease and its attempts."""

    id: int
    host: str
    pid: int
    boot: str
    born: int
    version: str
    started_at: int
    expires_at: int | None
    """Expiry of its lease, in microseconds UTC; None after it has left or was found dead."""
    attempts: int
    open: int
    """Number of attempts without an outcome."""

    @property
    def worker_row(self) -> WorkerRow:
        """The identity of the process, for a liveness check."""
        return WorkerRow(
            host=self.host,
            pid=self.pid,
            boot=self.boot,
            born=self.born,
            version=self.version,
            started_at=self.started_at,
        )


@attrs.frozen(kw_only=True)
class WorkerAccount:
    """Spending of one worker process: its allotments from the sweep's caps against what its requests' events prove."""

    worker_id: int
    allotments: int
    """Number of its rows in `spend`; 0 if the process ran without a cap."""
    allotted: Amount
    """Allotted and not returned."""
    proven: Amount
    """The requests sent, and the charges of those that have ended, summed from `call_sent` and `call` events."""
    unpriced: int
    """Number of requests of unknown cost: without a price, in flight, or lost with their process."""
    settled: bool
    """True if its last row returned its whole balance."""

    @property
    def unproven(self) -> Amount:
        """Allotted, but not accounted for by any request."""
        return self.allotted - self.proven


@attrs.frozen(kw_only=True)
class Coverage:
    """Coverage of a sweep's plan by its results: planned, final, unfinished and doubled runs."""

    planned: int
    final: int
    """Number of current results that `resume` does not run again."""
    unfinished: int
    """Number of runs without a final result."""
    doubled: int
    """Number of runs with more than one current result; anything but 0 means that the store is corrupt."""
