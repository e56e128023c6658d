"""What only a reader tells of a sweep: its attempts, counts, notices, orders and workers, as they are stored.

Times are integer microseconds UTC, durations integer milliseconds. What was not measured is None, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from store.rows import Amount, Outcome, WorkerRow

if TYPE_CHECKING:
    from store.events import Json


@attrs.frozen(kw_only=True)
class AttemptRecord:
    """One attempt at a run, and how it ended; `outcome` is None while it runs, and for good if it was killed."""

    attempt_id: int
    number: int
    worker_id: int
    claimed_at: int
    counts: bool
    """The run's current result is this attempt's."""
    outcome: Outcome | None = None
    reason: str | None = None
    started_at: int | None = None
    ended_at: int | None = None
    wall_ms: int | None = None
    waited_ms: int | None = None
    turns: int | None = None
    tool_calls: int | None = None
    calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_nusd: int | None = None
    cost_source: str | None = None
    model_resolved: str | None = None
    detail: Mapping[str, Json] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Tally:
    """How many current results of a sweep came to the same."""

    outcome: Outcome
    reason: str | None
    judged: bool
    again: bool
    count: int


@attrs.frozen(kw_only=True)
class NoticeRow:
    """Something that happened to a sweep."""

    id: int
    worker_id: int | None
    at: int
    kind: str
    payload: Mapping[str, Json]


@attrs.frozen(kw_only=True)
class ControlRow:
    """Something a person told a sweep to do."""

    id: int
    verb: str
    who: str
    why: str
    payload: Mapping[str, Json]
    at: int


@attrs.frozen(kw_only=True)
class Doing:
    """An unfinished attempt of a process that holds a lease, and what it was last about."""

    attempt_id: int
    position: int
    number: int
    worker_id: int
    claimed_at: int
    at: int | None
    """Milliseconds from the claim to the event; None where nothing has happened yet, and it only waits to start."""
    kind: str | None
    payload: Mapping[str, Json]


@attrs.frozen(kw_only=True)
class WorkerState:
    """A process that has claimed runs of a sweep."""

    id: int
    host: str
    pid: int
    boot: str
    born: int
    version: str
    started_at: int
    expires_at: int | None
    """Until when its lease holds; None once it has left or was found dead."""
    attempts: int
    open: int
    """Attempts without an outcome."""

    @property
    def row(self) -> WorkerRow:
        """What tells whether it is alive."""
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
    """What one process has taken of a sweep's caps, and what its requests came to by their own events."""

    worker_id: int
    grants: int
    """Rows of `spend`; none where the process had no cap to keep to."""
    granted: Amount
    """Taken and not given back."""
    proven: Amount
    """Requests that were sent, and what those that have ended were charged."""
    unpriced: int
    """Requests whose cost is not known: without a price, under way, or lost with their process."""
    settled: bool
    """Its last word was to give back all that was left."""

    @property
    def rest(self) -> Amount:
        """Taken, and not accounted for by a request."""
        return self.granted - self.proven


@attrs.frozen(kw_only=True)
class Coverage:
    """How a sweep's plan and its results agree."""

    planned: int
    final: int
    """Current results that `resume` does not run again."""
    unfinished: int
    """Runs without one."""
    doubled: int
    """Runs with more than one current result: none, or the store is broken."""
