"""Shortening single messages of a transcript that is too long as a whole: the longest first, in rounds."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from providers.agent.transcript import weight
from providers.base import AssistantTurn, Message, ToolAnswer, UserText

ROUNDS = ((8000, 16_000), (4096, 8192), (2048, 4096), (1024, 2048), (512, 1024))
"""Characters left of a tool's answer and of a text, round by round."""
LEAST_TARGET = 4000
"""Nothing is shortened to less than this in all."""
MARK = "… [truncated by context budget]"


def clipped(messages: Sequence[Message], target: int) -> tuple[list[Message], int]:
    """The messages, shortened until they have at most *target* characters in all or nothing more can go; how many were.

    The task itself is never shortened, and neither is a turn that has to go back to its provider unchanged.
    """
    result = [*messages]
    total = sum(map(weight, result))
    touched: set[int] = set()
    for tool_chars, text_chars in ROUNDS:
        for index in sorted(range(len(result)), key=lambda index: (-len(result[index].text), index)):
            if total <= target:
                return result, len(touched)
            message = result[index]
            limit = tool_chars if isinstance(message, ToolAnswer) else text_chars
            if len(message.text) > limit and _may_shrink(message):
                result[index] = attrs.evolve(message, text=message.text[: limit - len(MARK)] + MARK)
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
