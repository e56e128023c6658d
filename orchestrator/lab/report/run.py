"""One run of a lab, as reports look at it: plain values, wherever they come from."""

from __future__ import annotations

import attrs

from store.events import Json
from store.rows import Outcome, Verdict


@attrs.frozen(kw_only=True)
class LabRun:
    """One fixture against one target, once."""

    capability: str
    case_name: str
    """Its id, without the capability."""
    version: str
    target: str
    repetition: int
    """Counts from 0."""
    position: int | None = None
    """Its place in the sweep; None where it is of none."""
    outcome: Outcome | None = None
    """None: no result yet."""
    reason: str | None = None
    judged: bool = False
    """Not skipped, and not interrupted: every assertion was looked at."""
    again: bool = False
    """`resume` would run it again."""
    decision_status: str | None = None
    """`ok`, `abstain` or `error`; None where nothing was decided, as in a skipped run."""
    decision: Json = None
    abstain: str | None = None
    error: Json = None
    """`cause`, `message` and `node` of a decision that failed."""
    confidence: float | None = None
    """Of the node that decided, from 0 to 1; None where it said none."""
    trace: Json = None
    asked: bool = False
    """It called a backend or a specialist; never true of a run that was answered by recordings."""
    wall_ms: int | None = None
    """Time of work, without waits for room at the provider."""
    waited_ms: int | None = None
    calls: int | None = None
    cost_nusd: int | None = None
    """None where a call's cost is not known; never an estimate."""
    local: bool = False
    """Its target costs nothing."""
    verdicts: tuple[Verdict, ...] = ()
    """The assertions that did not hold."""
    message: str | None = None
    """Why it was skipped or could not end."""

    @property
    def case(self) -> str:
        """`capability/fixture`: unique in a lab."""
        return f"{self.capability}/{self.case_name}"

    @property
    def ending(self) -> str:
        """Outcome and status, which repetitions of a stable fixture share: `pass, ok`."""
        return f"{self.outcome}, {self.decision_status}" if self.decision_status is not None else str(self.outcome)
