"""One run of a lab as reports see it: plain values, independent of the store."""

from __future__ import annotations

import attrs

from store.events import Json
from store.rows import Outcome, Verdict


@attrs.frozen(kw_only=True)
class LabRun:
    """A run: one repetition of one case under one target."""

    capability: str
    case_name: str
    """The case's id without the capability."""
    version: str
    target: str
    repetition: int
    """Counts from 0."""
    position: int | None = None
    """The run's place in the sweep; None if it belongs to no sweep."""
    outcome: Outcome | None = None
    """None without a result."""
    reason: str | None = None
    judged: bool = False
    """Neither skipped nor interrupted: every assertion was evaluated."""
    again: bool = False
    """`resume` would run it again."""
    decision_status: str | None = None
    """`ok`, `abstain` or `error`; None without a decision, as in a skipped run."""
    decision: Json = None
    abstain: str | None = None
    error: Json = None
    """`cause`, `message` and `node` of a decision that failed."""
    confidence: float | None = None
    """The confidence of the node that decided, from 0 to 1; None if it stated none."""
    trace: Json = None
    asked: bool = False
    """It called a backend or a specialist; False if recordings answered."""
    wall_ms: int | None = None
    """Milliseconds of work, without waits at the gate."""
    waited_ms: int | None = None
    calls: int | None = None
    cost_nusd: int | None = None
    """The cost in nano-USD; None if a call's cost is unknown; never an estimate."""
    local: bool = False
    """The target is local: its calls cost nothing."""
    verdicts: tuple[Verdict, ...] = ()
    """The verdicts of the stored assertions."""
    message: str | None = None
    """Why it was skipped or interrupted."""

    @property
    def case(self) -> str:
        """`capability/fixture`: unique in a lab."""
        return f"{self.capability}/{self.case_name}"

    @property
    def ending(self) -> str:
        """Outcome and status, which repetitions of a stable fixture share: `pass, ok`."""
        return f"{self.outcome}, {self.decision_status}" if self.decision_status is not None else str(self.outcome)
