"""What a run that is under way is doing or waiting for, told from the last event it left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from orchestrator.text import one_line

if TYPE_CHECKING:
    from store.records import RunningAttempt

GRACE_US = 1_000_000
"""A retry whose time came longer ago than this waits for something else now."""
GATE = "a permit of the account or room in the caps"


@attrs.frozen(kw_only=True)
class Activity:
    """One run's state, in words that follow "waits for"."""

    position: int
    worker_id: int
    waits_for: str
    since: int
    """Microseconds UTC."""
    until: int | None = None
    """When it will be over by itself, where that is known."""
    begun: bool = True
    """False: it is claimed and waits for its turn."""


def activity_of(attempt: RunningAttempt, now: int) -> Activity:
    """What the run is about at *now* (microseconds UTC)."""
    since = attempt.claimed_at + (attempt.at or 0) * 1000
    until: int | None = None
    facts = attempt.payload
    match attempt.kind:
        case None:
            waits_for = "its turn"
        case "work_started" | "tool_completed":
            waits_for = GATE
        case "call_sent":
            waits_for = f"an answer of {one_line(str(facts.get('account', '')))}"
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
