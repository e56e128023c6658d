"""Phrases that all reports share: figures with units, and conditions in words. A missing figure is `n/a`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.text import format_count, indent_text, one_line

if TYPE_CHECKING:
    from store.events import Json

NOT_AVAILABLE = "n/a"

DIVERGED = "replay_divergence"

NOT_RERUN_CAUSES = ("interrupted", DIVERGED)
"""Causes of errors that `resume --errors` need not rerun, or would repeat."""

PLAYED_MODE_NOTICES = {
    "replay": "REPLAY: this measures the harness, not the model.",
    "offline": "OFFLINE: this tests flows, rules and schemas, not the models.",
}
"""By mode that plays recordings: the line that heads its reports."""


def format_error(cause: str | None, message: str, max_chars: int = 500) -> str:
    """Format an error's message on one line, without control characters; a divergence keeps its lines."""
    return indent_text(message, max_chars) if cause == DIVERGED else one_line(message, max_chars)


def format_requests(calls: int, tokens: int) -> str:
    """Format an amount of requests: `53 calls, 52,739 tokens`."""
    return f"{format_count(calls, 'call')}, {format_count(tokens, 'token')}"


def format_condition(value: Json) -> str:
    """Format the value of a condition: `yes`, `none`, `a, b`."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {format_condition(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(format_condition(inner) for inner in value) or "none"
    return {True: "yes", False: "no", None: "none"}[value] if isinstance(value, bool | None) else str(value)


def format_percent(share: float | None) -> str:
    """Format a share: `56.6 %`."""
    return NOT_AVAILABLE if share is None else f"{share * 100:.1f} %"


def format_seconds(milliseconds: float | None) -> str:
    """Format milliseconds as seconds: `1.2 s`."""
    if milliseconds is None:
        return NOT_AVAILABLE
    value = milliseconds / 1000
    return f"{value:,.0f} s" if value >= 100 else f"{value:.3g} s"


def format_squared_seconds(square_milliseconds: float | None) -> str:
    """Format square milliseconds as square seconds: `0.04 s²`."""
    return NOT_AVAILABLE if square_milliseconds is None else f"{square_milliseconds / 1_000_000:.3g} s²"


def format_number(value: float | None) -> str:
    """Format a rounded number: `12,345`."""
    return NOT_AVAILABLE if value is None else f"{value:,.0f}"


def format_usd(value: float | None) -> str:
    """Format an amount of money: `0.0123 USD`."""
    return NOT_AVAILABLE if value is None else f"{value:,.4f} USD"


def describe_resume(left: int, *, capped: bool) -> str:
    """Describe `resume`: `runs the 2 that are left`; *capped* adds that a spent cap has to be raised."""
    more = "; raise the caps that are spent" if capped else ""
    return f"runs the {left:,} that are left{more}"
