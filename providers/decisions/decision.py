"""What a flow comes to: a decision, an abstention or an error, and the trace of how."""

from __future__ import annotations

from typing import Literal

import attrs

from providers.usage import Usage
from store.events import Json

Status = Literal["ok", "abstain", "error"]
Cause = Literal["input", "rule", "provider", "auth", "quota", "timeout", "specialist", "bad_answer", "output"]
"""Why a flow failed: the input broke its schema; a rule could not be evaluated; whoever was asked did not answer; a
specialist crashed, or said what is no answer; what a model said is not of the form that was asked for; the decision
broke its schema."""

Outcome = Literal["decided", "answered", "passed", "abstained", "failed"]
"""What came of a node. `answered`: for later nodes; `passed`: a rule whose condition did not hold."""

INFRASTRUCTURAL: frozenset[Cause] = frozenset({"provider", "auth", "quota", "timeout", "specialist"})
"""Causes that say nothing about how well is decided."""


@attrs.frozen(kw_only=True)
class Failure:
    """Why a flow, or a node of it, failed."""

    cause: Cause
    message: str
    node: str | None = None

    def to_json(self) -> dict[str, Json]:
        """As assertions see it."""
        return attrs.asdict(self)


@attrs.frozen(kw_only=True)
class Step:
    """What one node did."""

    node: str
    source: Literal["rule", "model", "exec", "http"]
    outcome: Outcome
    backend: str | None = None
    model: str | None = None
    """As it was asked for."""
    ms: int | None = None
    """How long it took; None in a replay, where nothing is measured."""
    usage: Usage | None = None
    confidence: float | None = None
    reason: str | None = None
    """Why it abstained or failed."""

    def to_json(self) -> dict[str, Json]:
        """As assertions and reports see it: everything but `ms` is the same whenever the answers are."""
        return attrs.asdict(self) | {"usage": self.usage.reported() if self.usage is not None else None}


@attrs.frozen(kw_only=True)
class Decision:
    """How a flow ended."""

    status: Status
    decision: Json = None
    """With `ok`: what was decided."""
    abstain: str | None = None
    """With `abstain`: why."""
    error: Failure | None = None
    """With `error`: why."""
    confidence: float | None = None
    """Of the node that decided; None where it said nothing."""
    trace: tuple[Step, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """What a hub answers, and what assertions are over."""
        return {
            "status": self.status,
            "decision": self.decision,
            "abstain": self.abstain,
            "error": self.error.to_json() if self.error is not None else None,
            "trace": [step.to_json() for step in self.trace],
        }
