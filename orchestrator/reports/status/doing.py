"""The activity of a running attempt, derived from its last event."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from orchestrator.text import one_line

if TYPE_CHECKING:
    from store.records import RunningAttempt

GRACE_US = 1_000_000
"""Microseconds: a retry that is overdue by more than this waits for the gate instead."""
GATE = "a permit of the account or room in the caps"
"""The wait of a request that the gate has not let through yet."""


@attrs.frozen(kw_only=True)
class Activity:
    """The wait of one running attempt."""

    position: int
    worker_id: int
    waits_for: str
    """Noun phrase that follows "waits for"."""
    since: int
    """Microseconds UTC."""
    until: int | None = None
    """End of the wait in microseconds UTC; None if it is unknown."""
    begun: bool = True
    """True if work has begun, False if the run is only claimed."""


def activity_of(attempt: RunningAttempt, now: int) -> Activity:
    """Derive the activity of *attempt* at *now* (microseconds UTC)."""
    since = attempt.claimed_at + (attempt.at or 0) * 1000
    until: int | None = None
    facts = attempt.payload
    match attempt.kind:
        case None:
            waits_for = "its turn"
        case "work_started" | "tool_completed":
            waits_for = GATE
        case "call_sent":
            waits_for = f"an answer from {one_line(str(facts.get('account', '')))}"
        case "call_responded":
            waits_for = "the rest of an answer"
        case "call" if facts.get("retry_in_ms") is not None:
            until = since + int(facts["retry_in_ms"]) * 1000
            refusal = f"{one_line(str(facts.get('error')))}" + (f" ({facts['status']})" if "status" in facts else "")
            waits_for = f"a retry after {refusal}"
            if now > until + GRACE_US:
                since, until, waits_for = until, None, GATE
        case "call":
            waits_for = "its next step"
        case "tool_started":
            waits_for = f"the tool {one_line(str(facts.get('name', '')))}"
        case "work_ended":
            waits_for = "its verifiers"
        case kind:
            waits_for = f"what follows {one_line(kind)}"
    return Activity(
        position=attempt.position,
        worker_id=attempt.worker_id,
        waits_for=waits_for,
        since=since,
        until=until,
        begun=attempt.kind is not None,
    )
