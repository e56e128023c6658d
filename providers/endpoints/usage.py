"""Usage reports: reads the token counts of each wire format."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import attrs

from providers.usage import Usage
from store.events import Json
from store.money import MAX_USD_DECIMALS, to_nusd

MAX_PLAUSIBLE_TOKENS = 1_000_000_000
"""A larger token count is implausible and dropped."""

Report = Mapping[str, Json]


class _TokenCounts:
    """Reads token counts from a report and notes whether one was implausible."""

    def __init__(self) -> None:
        self.dropped = False

    def take_count(self, *candidates: Json) -> int | None:
        """The first given number; None if there is none or it cannot be a token count."""
        given = next((value for value in candidates if value is not None), None)
        if isinstance(given, float) and given.is_integer():
            given = int(given)
        if given is None:
            return None
        if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= MAX_PLAUSIBLE_TOKENS:
            self.dropped = True
            return None
        return given

    def build_usage(self, usage: Usage) -> tuple[Usage | None, tuple[str, ...]]:
        """Build the usage without parts that are larger than their whole, and its notes."""
        cached, written = (self._drop_oversized(part, usage.input) for part in (usage.cached, usage.cache_write))
        for_an_hour = self._drop_oversized(usage.cache_write_1h, written)
        notes = ("usage_implausible",) if self.dropped else ()
        usage = attrs.evolve(usage, cached=cached, cache_write=written, cache_write_1h=for_an_hour)
        if usage.to_json():
            return usage, notes
        return None, notes or ("usage_unreported",)

    def _drop_oversized(self, part: int | None, whole: int | None) -> int | None:
        # A whole of 0 may only leave out its parts; `drop_unreported_zeros` decides.
        if part is None or not whole or part <= whole:
            return part
        self.dropped = True
        return None


def is_plausible(usage: Usage | None) -> bool:
    """True if every field can be a token count. A negative one would credit a budget."""
    if usage is None:
        return True
    told = (usage.input, usage.output, usage.cached, usage.cache_write, usage.reasoning, usage.cache_write_1h)
    return all(tokens is None or 0 <= tokens <= MAX_PLAUSIBLE_TOKENS for tokens in told)


def drop_unreported_zeros(
    usage: Usage | None, notes: tuple[str, ...], *, answered: bool
) -> tuple[Usage | None, tuple[str, ...]]:
    """Leave out zeros that were not counted: servers that do not count tokens report 0.

    A request always has input, and an answer with content (*answered*) has output. A zero that cached or reasoning
    tokens explain is a count.
    """
    if usage is None:
        return None, notes
    no_input = usage.input == 0 and not (usage.cached or usage.cache_write)
    if usage.input == 0 and not no_input:
        # The endpoint leaves cached tokens out of its input, so they are no part of it.
        usage = attrs.evolve(usage, cached=None, cache_write=None, cache_write_1h=None)
    no_output = usage.output == 0 and not usage.reasoning and (answered or no_input)
    if no_input:
        usage = attrs.evolve(usage, input=None, cached=None, cache_write=None, cache_write_1h=None)
    if no_output:
        usage = attrs.evolve(usage, output=None, reasoning=None)
    if (no_input or no_output) and "usage_unreported" not in notes:
        notes = (*notes, "usage_unreported")
    return (usage if usage.to_json() else None), notes


def read_chat_usage(
    report: Report | None, *, cached_elsewhere: Json = None, with_calls: bool = False
) -> tuple[Usage | None, tuple[str, ...]]:
    """Read the usage report of chat completions. *with_calls*: the answer contains tool calls.

    Returns:
        The usage, and its notes: `usage_unreported`, or `usage_implausible` if a field was dropped.
    """
    if report is None:
        return None, ("usage_unreported",)
    counts = _TokenCounts()
    prompt_details, output_details = _list_details(report, "prompt_tokens_details", "completion_tokens_details")
    prompt, output = counts.take_count(report.get("prompt_tokens")), counts.take_count(report.get("completion_tokens"))
    cached = counts.take_count(
        prompt_details.get("cached_tokens"),
        report.get("prompt_cache_hit_tokens"),
        report.get("cached_tokens"),
        cached_elsewhere,
    )
    written = counts.take_count(prompt_details.get("cache_write_tokens"))
    reasoning = counts.take_count(output_details.get("reasoning_tokens"))
    total = report.get("total_tokens")
    if reasoning and prompt is not None and output is not None and total == prompt + output + reasoning:
        output += reasoning  # xAI counts reasoning separately
    elif reasoning is None and not with_calls and prompt is not None and output is not None:
        # Gemini's total also contains thoughts, billed as output, without naming them. Next to calls, it also contains
        # the prompts of tools, so the difference says nothing about the output.
        whole = counts.take_count(total)
        output = max(output, whole - prompt) if whole is not None and output else output
    return counts.build_usage(
        Usage(input=prompt, output=output, cached=cached, cache_write=written, reasoning=reasoning)
    )


def read_messages_usage(report: Report | None) -> tuple[Usage | None, tuple[str, ...]]:
    """Read the usage report of Anthropic Messages, where `input_tokens` excludes cached tokens."""
    if not report:
        return None, ("usage_unreported",)
    counts = _TokenCounts()
    written_details, output_details = _list_details(report, "cache_creation", "output_tokens_details")
    plain = counts.take_count(report.get("input_tokens"))
    cached = counts.take_count(report.get("cache_read_input_tokens"))
    lifetimes = [
        counts.take_count(written_details.get(f"ephemeral_{lifetime}_input_tokens")) for lifetime in ("5m", "1h")
    ]
    told = [number for number in lifetimes if number is not None]
    written = counts.take_count(report.get("cache_creation_input_tokens"), sum(told) if told else None)
    return counts.build_usage(
        Usage(
            input=None if plain is None else plain + (cached or 0) + (written or 0),
            output=counts.take_count(report.get("output_tokens")),
            cached=cached,
            cache_write=written,
            cache_write_1h=lifetimes[1] or None,
            reasoning=counts.take_count(output_details.get("thinking_tokens"), output_details.get("reasoning_tokens")),
        )
    )


def read_responses_usage(report: Report | None) -> tuple[Usage | None, tuple[str, ...]]:
    """Read the usage report of OpenAI Responses."""
    if report is None:
        return None, ("usage_unreported",)
    counts = _TokenCounts()
    input_details, output_details = _list_details(report, "input_tokens_details", "output_tokens_details")
    return counts.build_usage(
        Usage(
            input=counts.take_count(report.get("input_tokens")),
            output=counts.take_count(report.get("output_tokens")),
            cached=counts.take_count(input_details.get("cached_tokens")),
            reasoning=counts.take_count(output_details.get("reasoning_tokens")),
        )
    )


def read_ollama_usage(report: Report | None) -> tuple[Usage | None, tuple[str, ...]]:
    """Read the usage report of Ollama, which leaves out the prompt's tokens if they were cached."""
    if report is None:
        return None, ("usage_unreported",)
    counts = _TokenCounts()
    prompt, output = counts.take_count(report.get("prompt_eval_count")), counts.take_count(report.get("eval_count"))
    return counts.build_usage(Usage(input=prompt, output=output))


def read_reported_cost(report: Report | None) -> int | None:
    """Cost in nano-USD as the endpoint reports it (`cost` in the usage, as in OpenRouter's); None if it reports none.

    With a key of the user's own at another provider (BYOK) the figure is only the endpoint's fee, so it is ignored.
    """
    given = report.get("cost") if report is not None and not report.get("is_byok") else None
    if isinstance(given, bool) or not isinstance(given, int | float | str):
        return None
    try:
        return to_nusd(round(Decimal(str(given)), MAX_USD_DECIMALS))
    except (ArithmeticError, ValueError):  # not a number, or not a possible cost
        return None


def _list_details(report: Report, *names: str) -> list[Report]:
    return [inner if isinstance(inner := report.get(name), dict) else {} for name in names]
