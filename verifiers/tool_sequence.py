"""The verifier `tool-sequence`: checks a rule over the tool calls of a run, in the order of the model's calls.

Refused and failed calls count, because the model made them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar, assert_never

import attrs

from providers.base import ToolUse
from store.events import Json
from store.rows import Verdict
from verifiers.base import Evidence


@attrs.frozen(kw_only=True)
class CalledBefore:
    """`first` was called before every call of `then`. Tool names are compared, not files."""

    type: ClassVar[str] = "before"
    first: str
    then: str


@attrs.frozen(kw_only=True)
class NeverCalled:
    """`tool` was never called."""

    type: ClassVar[str] = "never"
    tool: str


@attrs.frozen(kw_only=True)
class MaxCalls:
    """`tool` was called at most `max` times."""

    type: ClassVar[str] = "max-calls"
    tool: str
    max: int = attrs.field(validator=attrs.validators.ge(0))


@attrs.frozen(kw_only=True)
class NoRepeatFailure:
    """No call of `tool` failed twice with the same arguments."""

    type: ClassVar[str] = "no-repeat-failure"
    tool: str


SequenceRule = CalledBefore | NeverCalled | MaxCalls | NoRepeatFailure


@attrs.frozen(kw_only=True)
class ToolSequence:
    """Passes if the rule holds; `error` if the subject does not report its tool calls."""

    kind: ClassVar[str] = "tool-sequence"
    only_looks: ClassVar[bool] = True
    id: str
    rule: SequenceRule

    async def verify(self, evidence: Evidence) -> Verdict:
        """Judge the tool calls."""
        if evidence.tools is None:
            return Verdict(verifier=self.id, kind=self.kind, verdict="error", detail={"reason": "no_tool_events"})
        broken = find_breach(self.rule, evidence.tools)
        if broken is None:
            return Verdict(verifier=self.id, kind=self.kind, verdict="pass")
        detail = {"reason": self.rule.type, **broken}
        return Verdict(verifier=self.id, kind=self.kind, verdict="fail", detail=detail)


def find_breach(rule: SequenceRule, tools: Sequence[ToolUse]) -> dict[str, Json] | None:
    """Find the first breach of *rule*: the offending call, counted from 1, and its details; None if the rule holds."""
    match rule:
        case CalledBefore():
            return _find_early_call(rule, tools)
        case NeverCalled():
            return next(
                ({"call": n, "tool": use.name} for n, use in enumerate(tools, 1) if use.name == rule.tool), None
            )
        case MaxCalls():
            calls = sum(use.name == rule.tool for use in tools)
            return {"tool": rule.tool, "calls": calls, "max": rule.max} if calls > rule.max else None
        case NoRepeatFailure():
            return _find_repeated_failure(rule, tools)
        case _:
            assert_never(rule)


def _find_early_call(rule: CalledBefore, tools: Sequence[ToolUse]) -> dict[str, Json] | None:
    for place, use in enumerate(tools, 1):
        if use.name == rule.then:  # checked first: a call does not precede itself
            return {"call": place, "tool": rule.then, "missing": rule.first}
        if use.name == rule.first:
            return None
    return None


def _find_repeated_failure(rule: NoRepeatFailure, tools: Sequence[ToolUse]) -> dict[str, Json] | None:
    failed: dict[str, int] = {}
    for place, use in enumerate(tools, 1):
        if use.name == rule.tool and use.is_error:
            first = failed.setdefault(_encode_arguments(use.arguments), place)
            if first != place:
                return {"call": place, "tool": use.name, "first": first}
    return None


def _encode_arguments(arguments: Json) -> str:
    return json.dumps(arguments, sort_keys=True)
