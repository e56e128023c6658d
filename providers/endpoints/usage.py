"""Tokens as endpoints report them, under the names that each wire format has for them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import attrs

from providers.usage import Usage
from store.events import Json
from store.money import DECIMALS, to_nusd

MAX_TOKENS = 1_000_000_000
"""A larger number of tokens is no report of any model's."""

Report = Mapping[str, Json]


class _Counts:
    """Takes numbers from a report and remembers whether one of them could not be true."""

    def __init__(self) -> None:
        self.dropped = False

    def count(self, *candidates: Json) -> int | None:
        """The first number that was given; None where none was, or where it is none of tokens."""
        given = next((value for value in candidates if value is not None), None)
        if isinstance(given, float) and given.is_integer():
            given = int(given)
        if given is None:
            return None
        if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= MAX_TOKENS:
            self.dropped = True
            return None
        return given

    def read(self, usage: Usage) -> tuple[Usage | None, tuple[str, ...]]:
        """The usage without parts that are larger than the whole, and what is to be noted about it."""
        cached, written = (self._within(part, usage.input) for part in (usage.cached, usage.cache_write))
        for_an_hour = self._within(usage.cache_write_1h, written)
        notes = ("usage_implausible",) if self.dropped else ()
        usage = attrs.evolve(usage, cached=cached, cache_write=written, cache_write_1h=for_an_hour)
        if usage.reported():
            return usage, notes
        return None, notes or ("usage_unreported",)

    def _within(self, part: int | None, whole: int | None) -> int | None:
        if part is None or whole is None or part <= whole:
            return part
        self.dropped = True
        return None


def believable(usage: Usage | None) -> bool:
    """Whether every field could be a count of tokens. A negative one would give a budget back what it never had."""
    if usage is None:
        return True
    told = (usage.input, usage.output, usage.cached, usage.cache_write, usage.reasoning, usage.cache_write_1h)
    return all(tokens is None or 0 <= tokens <= MAX_TOKENS for tokens in told)


def read_usage(report: Report | None, *, cached_elsewhere: Json = None) -> tuple[Usage | None, tuple[str, ...]]:
    """Tokens as chat completions endpoints report them, and notes: `usage_unreported`, `usage_implausible` (a field
    was dropped).
    """
    if report is None:
        return None, ("usage_unreported",)
    counts = _Counts()
    prompt_details, output_details = _inner(report, "prompt_tokens_details", "completion_tokens_details")
    prompt, output = counts.count(report.get("prompt_tokens")), counts.count(report.get("completion_tokens"))
    cached = counts.count(
        prompt_details.get("cached_tokens"),
        report.get("prompt_cache_hit_tokens"),
        report.get("cached_tokens"),
        cached_elsewhere,
    )
    written = counts.count(prompt_details.get("cache_write_tokens"))
    reasoning = counts.count(output_details.get("reasoning_tokens"))
    total = report.get("total_tokens")
    if reasoning and prompt is not None and output is not None and total == prompt + output + reasoning:
        output += reasoning  # xAI counts them apart
    return counts.read(Usage(input=prompt, output=output, cached=cached, cache_write=written, reasoning=reasoning))


def read_messages_usage(report: Report | None) -> tuple[Usage | None, tuple[str, ...]]:
    """The same as Anthropic Messages reports it, where `input_tokens` leaves out what a cache held or took."""
    if not report:
        return None, ("usage_unreported",)
    counts = _Counts()
    (written_details,) = _inner(report, "cache_creation")
    plain = counts.count(report.get("input_tokens"))
    cached = counts.count(report.get("cache_read_input_tokens"))
    lifetimes = [counts.count(written_details.get(f"ephemeral_{lifetime}_input_tokens")) for lifetime in ("5m", "1h")]
    told = [number for number in lifetimes if number is not None]
    written = counts.count(report.get("cache_creation_input_tokens"), sum(told) if told else None)
    return counts.read(
        Usage(
            input=None if plain is None else plain + (cached or 0) + (written or 0),
            output=counts.count(report.get("output_tokens")),
            cached=cached,
            cache_write=written,
            cache_write_1h=lifetimes[1] or None,
        )
    )


def read_responses_usage(report: Report | None) -> tuple[Usage | None, tuple[str, ...]]:
    """The same as OpenAI Responses reports it."""
    if report is None:
        return None, ("usage_unreported",)
    counts = _Counts()
    input_details, output_details = _inner(report, "input_tokens_details", "output_tokens_details")
    return counts.read(
        Usage(
            input=counts.count(report.get("input_tokens")),
            output=counts.count(report.get("output_tokens")),
            cached=counts.count(input_details.get("cached_tokens")),
            reasoning=counts.count(output_details.get("reasoning_tokens")),
        )
    )


def read_ollama_usage(report: Report | None) -> tuple[Usage | None, tuple[str, ...]]:
    """The same as Ollama reports it: beside the answer, without the prompt's where that was cached."""
    if report is None:
        return None, ("usage_unreported",)
    counts = _Counts()
    prompt, output = counts.count(report.get("prompt_eval_count")), counts.count(report.get("eval_count"))
    return counts.read(Usage(input=prompt, output=output))


def reported_cost(report: Report | None) -> int | None:
    """Nano-USD that an endpoint says the request cost (`cost` in its usage, as OpenRouter tells it); None: nothing.

    Where a key of one's own at another provider was used, the figure is the endpoint's fee alone, and so is no cost.
    """
    given = report.get("cost") if report is not None and not report.get("is_byok") else None
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    try:
        return to_nusd(round(Decimal(str(given)), DECIMALS))
    except (ArithmeticError, ValueError):  # no number, or none that a request can cost
        return None


def _inner(report: Report, *names: str) -> list[Report]:
    return [inner if isinstance(inner := report.get(name), dict) else {} for name in names]
