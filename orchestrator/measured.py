"""Measured configuration of the built-in agent: its keys, a check for each value, and the hash over all of them."""

from __future__ import annotations

import re
from collections.abc import Callable

import attrs

from providers.base import AgentSettings
from store.documents.canonical import compute_digest
from store.documents.structure import describe_value
from store.events import Json

Check = Callable[[Json], str | None]
"""Returns the problem of a value, or None if it is valid."""


def expect_whole(minimum: int, maximum: int, *, unset: bool = False) -> Check:
    """Make a check for an integer from *minimum* to *maximum*; with *unset*, null is valid, too."""

    def check_whole(value: Json) -> str | None:
        if unset and value is None:
            return None
        wanted = f"an integer from {minimum:,} to {maximum:,}{', or null' if unset else ''}"
        fits = type(value) is int and minimum <= value <= maximum
        return None if fits else f"expected {wanted}, got {describe_value(value)}"

    return check_whole


def expect_fraction(minimum: float, maximum: float) -> Check:
    """Make a check for a number from *minimum* to *maximum*."""

    def check_fraction(value: Json) -> str | None:
        fits = type(value) in (int, float) and minimum <= value <= maximum
        return None if fits else f"expected a number from {minimum:g} to {maximum:g}, got {describe_value(value)}"

    return check_fraction


def expect_flag(value: Json) -> str | None:
    """Check for true or false."""
    return None if type(value) is bool else f"expected true or false, got {describe_value(value)}"


def expect_text(value: Json) -> str | None:
    """Check for a string that is not blank."""
    return None if isinstance(value, str) and value.strip() else f"expected some text, got {describe_value(value)}"


def expect_word(value: Json) -> str | None:
    """Check for a short word or null."""
    fits = value is None or (isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,40}", value))
    return None if fits else f"expected a word such as low, medium or high, or null, got {describe_value(value)}"


def expect_objects(value: Json) -> str | None:
    """Check for an array of objects."""
    fits = isinstance(value, list) and all(isinstance(item, dict) for item in value)
    return None if fits else f"expected an array of objects, got {describe_value(value)}"


@attrs.frozen(kw_only=True)
class MeasuredKey:
    """One key of the measured configuration."""

    name: str
    """The key in files, variants and reports."""
    field: str
    """The field of `AgentSettings`."""
    check: Check


MEASURED = {
    key.name: key
    for key in (
        MeasuredKey(name="limits.maxTurns", field="max_turns", check=expect_whole(1, 100)),
        MeasuredKey(
            name="limits.maxOutputTokens", field="max_output_tokens", check=expect_whole(1, 1_000_000, unset=True)
        ),
        MeasuredKey(name="limits.maxContextChars", field="max_context_chars", check=expect_whole(1_000, 100_000_000)),
        MeasuredKey(name="limits.truncationRecoveries", field="truncation_recoveries", check=expect_whole(0, 5)),
        MeasuredKey(
            name="limits.firstTokenTimeoutMs", field="first_token_timeout_ms", check=expect_whole(1, 3_600_000)
        ),
        MeasuredKey(name="limits.firstTokenRetries", field="first_token_retries", check=expect_whole(0, 3)),
        MeasuredKey(name="compaction.auto", field="compaction_auto", check=expect_flag),
        MeasuredKey(name="compaction.threshold", field="compaction_threshold", check=expect_fraction(0.1, 0.99)),
        MeasuredKey(name="compaction.keepTurns", field="compaction_keep_turns", check=expect_whole(0, 20)),
        MeasuredKey(
            name="compaction.maxOutputTokens", field="compaction_max_output_tokens", check=expect_whole(1, 1_000_000)
        ),
        MeasuredKey(name="reasoningEffort", field="reasoning_effort", check=expect_word),
        MeasuredKey(name="nativeTools", field="native_tools", check=expect_objects),
        MeasuredKey(name="agents.active", field="agent", check=expect_text),
    )
}
"""Keys that enter the configuration hash and that a variant may override, beside the active agent's definition."""


def measured_document(settings: AgentSettings) -> dict[str, Json]:
    """Encode the measured configuration as a JSON object of all keys, defaults included."""
    document: dict[str, Json] = {name: getattr(settings, key.field) for name, key in MEASURED.items()}
    document["nativeTools"] = list(settings.native_tools)
    document["agents.definition"] = settings.instructions
    return document


def config_hash(settings: AgentSettings) -> str:
    """SHA-256 (hex) of the canonical JSON of the measured configuration.

    Raises:
        UsageError: canonical JSON cannot represent a value in `nativeTools`.
    """
    return compute_digest(measured_document(settings)).hex()
