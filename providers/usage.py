"""Tokens as chat completions endpoints report them, under the names each of them likes."""

from __future__ import annotations

from collections.abc import Mapping

from providers.base import Usage
from store.events import Json

MAX_TOKENS = 1_000_000_000
"""A larger number of tokens is no report of any model's."""


def read_usage(
    report: Mapping[str, Json] | None, *, cached_elsewhere: Json = None
) -> tuple[Usage | None, tuple[str, ...]]:
    """Tokens as reported, and notes: `usage_unreported`, `usage_implausible` (a field was dropped)."""
    if report is None:
        return None, ("usage_unreported",)
    prompt_details, output_details = (
        details if isinstance(details := report.get(name), dict) else {}
        for name in ("prompt_tokens_details", "completion_tokens_details")
    )
    dropped = False

    def count(*candidates: Json) -> int | None:
        nonlocal dropped
        given = next((value for value in candidates if value is not None), None)
        if isinstance(given, float) and given.is_integer():
            given = int(given)
        if given is None:
            return None
        if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= MAX_TOKENS:
            dropped = True
            return None
        return given

    prompt, output = count(report.get("prompt_tokens")), count(report.get("completion_tokens"))
    cached = count(
        prompt_details.get("cached_tokens"),
        report.get("prompt_cache_hit_tokens"),
        report.get("cached_tokens"),
        cached_elsewhere,
    )
    written = count(prompt_details.get("cache_write_tokens"))
    reasoning = count(output_details.get("reasoning_tokens"))
    total = report.get("total_tokens")
    if reasoning and prompt is not None and output is not None and total == prompt + output + reasoning:
        output += reasoning  # xAI counts them apart
    if prompt is not None and cached is not None and cached > prompt:
        cached, dropped = None, True
    if prompt is not None and written is not None and written > prompt:
        written, dropped = None, True
    usage = Usage(input=prompt, output=output, cached=cached, cache_write=written, reasoning=reasoning)
    notes = ("usage_implausible",) if dropped else ()
    if usage.reported():
        return usage, notes
    return None, notes or ("usage_unreported",)
