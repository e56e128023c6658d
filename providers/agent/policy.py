"""Which tools a model is offered, and what a call gets that the policy does not allow."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from providers.agent.tools import Tool
from providers.base import Policy


@attrs.frozen(kw_only=True)
class Refusal:
    """A call that will not be run."""

    message: str
    """For the model."""
    incident: str | None = None
    """What to count, if anything: a refusal without approval leaves no event."""


def offered(tools: Sequence[Tool], policy: Policy) -> tuple[Tool, ...]:
    """The tools the model is told about: what is granted, and in `ask` mode what could be approved."""
    return tuple(tool for tool in tools if tool.effect in policy.granted or _askable(tool, policy))


def refusal(tool: Tool, policy: Policy) -> Refusal | None:
    """Why a call of *tool* is not run; None where it may be."""
    if tool.effect in policy.granted:
        return None
    if _askable(tool, policy):
        return Refusal(
            message=f"Capability denied: {tool.effect} (approval was asked for and denied)", incident="approval_denied"
        )
    return Refusal(message=f"Capability denied: {tool.effect}")


def _askable(tool: Tool, policy: Policy) -> bool:
    return policy.mode == "ask" and tool.effect in policy.askable
