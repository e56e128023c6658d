"""Phrases that every kind of report shares: figures, units and conditions in words. A missing figure is `n/a`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.text import format_count, indent_text, one_line

if TYPE_CHECKING:
    from store.events import Json

NOT_AVAILABLE = "n/a"

DIVERGED = "replay_divergence"

NOT_RERUN_CAUSES = ("interrupted", DIVERGED)
"""Causes for which `resume --errors` is not needed, or does not help."""

PLAYED_MODE_NOTICES = {
    "replay": "REPLAY: this measures the harness, not the model.",
    "offline": "OFFLINE: this tests flows, rules and schemas, not who answers.",
}
"""What is said first where recordings are played, by mode."""


def format_error(cause: str | None, message: str, max_chars: int = 500) -> str:
    """An error's message, harmless: on one line, or, where a replay diverged, with what was asked below it."""
    return indent_text(message, max_chars) if cause == DIVERGED else one_line(message, max_chars)


def format_requests(calls: int, tokens: int) -> str:
    """`53 calls, 52,739 tokens`."""
    return f"{format_count(calls, 'call')}, {format_count(tokens, 'token')}"


def format_condition(value: Json) -> str:
    """A condition's value in words: `yes`, `none`, `a, b`."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {format_condition(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(format_condition(inner) for inner in value) or "none"
    return {True: "yes", False: "no", None: "none"}[value] if isinstance(value, bool | None) else str(value)


def format_percent(share: float | None) -> str:
    """`56.6 %`."""
    return NOT_AVAILABLE if share is None else f"{share * 100:.1f} %"


def format_seconds(milliseconds: float | None) -> str:
    """`1.2 s`."""
    if milliseconds is None:
        return NOT_AVAILABLE
    value = milliseconds / 1000
    return f"{value:,.0f} s" if value >= 100 else f"{value:.3g} s"


def format_squared_seconds(square_milliseconds: float | None) -> str:
    """`0.04 s²`."""
    return NOT_AVAILABLE if square_milliseconds is None else f"{square_milliseconds / 1_000_000:.3g} s²"


def format_number(value: float | None) -> str:
    """`12,345`, rounded."""
    return NOT_AVAILABLE if value is None else f"{value:,.0f}"


def format_usd(value: float | None) -> str:
    """`0.0123 USD`."""
    return NOT_AVAILABLE if value is None else f"{value:,.4f} USD"


def describe_resume(left: int, *, capped: bool) -> str:
    """`runs the 2 that are left`; *capped* adds that a spent cap has to be raised."""
    more = ", given a higher cap where one is spent" if capped else ""
    return f"runs the {left:,} that are left{more}"
