"""Truncation of long messages in a transcript that is too long: the longest first, in rounds of falling limits."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from providers.agent.transcript import count_chars
from providers.base import AssistantTurn, Message, ToolAnswer, UserText

ROUND_LIMITS = ((8000, 16_000), (4096, 8192), (2048, 4096), (1024, 2048), (512, 1024))
"""Limits in characters per round: (of a tool's answer, of any other text)."""
MIN_TARGET_CHARS = 4000
"""Smallest target for the whole transcript, in characters."""
SHORTENED_MARK = "… [truncated by context budget]"


def shorten_messages(messages: Sequence[Message], target: int) -> tuple[list[Message], int]:
    """Truncate messages until all have at most *target* characters together or no more can be truncated.

    The task itself and turns that must go back to their provider unchanged are never truncated.

    Returns:
        The messages, and the number of truncated ones.
    """
    result = [*messages]
    total = sum(map(count_chars, result))
    touched: set[int] = set()
    for tool_chars, text_chars in ROUND_LIMITS:
        for index in sorted(range(len(result)), key=lambda index: (-len(result[index].text), index)):
            if total <= target:
                return result, len(touched)
            message = result[index]
            limit = tool_chars if isinstance(message, ToolAnswer) else text_chars
            if len(message.text) > limit and _may_shrink(message):
                result[index] = attrs.evolve(message, text=message.text[: limit - len(SHORTENED_MARK)] + SHORTENED_MARK)
                total -= len(message.text) - limit
                touched.add(index)
    return result, len(touched)


def _may_shrink(message: Message) -> bool:
    match message:
        case UserText():
            return message.summary
        case AssistantTurn():
            return message.continuation is None
        case ToolAnswer():
            return True
