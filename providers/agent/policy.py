"""Permission policy: which tools a model is offered, and how a forbidden call is refused."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from providers.agent.tools import Tool
from providers.base import Policy


@attrs.frozen(kw_only=True)
class Refusal:
    """The refusal of a tool call."""

    message: str
    """The explanation for the model."""
    incident: str | None = None
    """Name of the incident to record; None for none."""


def select_offered_tools(tools: Sequence[Tool], policy: Policy) -> tuple[Tool, ...]:
    """The tools that the model sees: those granted, and in `ask` mode those that could be approved."""
    return tuple(tool for tool in tools if tool.effect in policy.granted or _may_ask(tool, policy))


def check_permission(tool: Tool, policy: Policy) -> Refusal | None:
    """The refusal of a call of *tool*; None if it is allowed."""
    if tool.effect in policy.granted:
        return None
    if _may_ask(tool, policy):
        return Refusal(
            message=f"Capability denied: {tool.effect} (approval was asked for and denied)", incident="approval_denied"
        )
    return Refusal(message=f"Capability denied: {tool.effect}")


def _may_ask(tool: Tool, policy: Policy) -> bool:
    return policy.mode == "ask" and tool.effect in policy.askable
