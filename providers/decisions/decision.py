"""The result of a decision flow: a decision, an abstention or an error, with the trace of its nodes."""

from __future__ import annotations

from typing import Literal

import attrs

from providers.usage import Usage
from store.events import Json

Status = Literal["ok", "abstain", "error"]
Cause = Literal["input", "rule", "provider", "auth", "quota", "timeout", "specialist", "bad_answer", "output"]
"""Cause of a failed flow. `input`: the input violates its schema; `rule`: a condition could not be evaluated;
`provider`, `auth`, `quota`, `timeout`: a request failed; `specialist`: it crashed or gave no valid answer;
`bad_answer`: a model's answer has the wrong form; `output`: the decision violates its schema."""

NodeOutcome = Literal["decided", "answered", "passed", "abstained", "failed"]
"""Outcome of a node. `answered`: an answer for later nodes; `passed`: a rule whose condition was false."""

INFRASTRUCTURE_CAUSES: frozenset[Cause] = frozenset({"provider", "auth", "quota", "timeout", "specialist"})
"""Causes that say nothing about the quality of decisions."""


@attrs.frozen(kw_only=True)
class Failure:
    """The failure of a flow, or of one node."""

    cause: Cause
    message: str
    node: str | None = None

    def to_json(self) -> dict[str, Json]:
        """The form that assertions see."""
        return attrs.asdict(self)


@attrs.frozen(kw_only=True)
class Step:
    """One entry of the trace: what a node did."""

    node: str
    source: Literal["rule", "model", "exec", "http"]
    outcome: NodeOutcome
    backend: str | None = None
    model: str | None = None
    """The requested model."""
    ms: int | None = None
    """Duration in milliseconds; None in a replay, where nothing is measured."""
    usage: Usage | None = None
    confidence: float | None = None
    reason: str | None = None
    """Reason of an abstention or a failure."""

    def to_json(self) -> dict[str, Json]:
        """The form that assertions and reports see. Equal answers give equal values, except for `ms`."""
        return attrs.asdict(self) | {"usage": self.usage.to_json() if self.usage is not None else None}


@attrs.frozen(kw_only=True)
class Decision:
    """The result of a flow."""

    status: Status
    decision: Json = None
    """With status `ok`: the decision."""
    abstain: str | None = None
    """With status `abstain`: the reason."""
    error: Failure | None = None
    """With status `error`: the failure."""
    confidence: float | None = None
    """Confidence of the node that decided; None if it stated none."""
    trace: tuple[Step, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """The response of a hub, and the variables of assertions."""
        return {
            "status": self.status,
            "decision": self.decision,
            "abstain": self.abstain,
            "error": self.error.to_json() if self.error is not None else None,
            "trace": [step.to_json() for step in self.trace],
        }
