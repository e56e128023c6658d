"""The transcript of a run: its messages, its length, and the places where it can be cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs

from providers.base import AssistantTurn, Message, ToolAnswer, ToolSpec, UserText
from providers.usage import Usage

CHARS_PER_TOKEN = 4
"""Rough estimate for text that no provider has counted yet."""
MIN_CUT_MESSAGES = 2
"""Minimum number of messages that are worth a summary."""
KEPT_MESSAGES_IN_TURN = 4
"""Number of last messages that stay if the cut falls inside a user's turn."""


@attrs.define(kw_only=True)
class Transcript:
    """The messages of a run and their length in characters."""

    messages: list[Message] = attrs.field(factory=list[Message])
    chars: int = 0
    _reported: int | None = None
    """Tokens of the last answered request and its answer, as reported by the provider."""
    _newer: int = 0
    """Characters added since that report."""

    def append(self, message: Message, usage: Usage | None = None) -> None:
        """Add a message; *usage* is the provider's report for it."""
        self.messages.append(message)
        chars = count_chars(message)
        self.chars += chars
        if usage is not None and usage.input is not None and usage.output is not None:
            self._reported, self._newer = usage.input + usage.output, 0
        else:
            self._newer += chars

    def replace_messages(self, messages: Iterable[Message]) -> None:
        """Replace all messages; the provider's last count no longer applies."""
        self.messages = [*messages]
        self.chars = sum(map(count_chars, self.messages))
        self._reported, self._newer = None, 0

    def estimate_request_tokens(self, beside: int) -> int:
        """Estimate the tokens of the next request; *beside*: characters of instructions and tools."""
        if self._reported is not None:
            return self._reported + estimate_tokens(self._newer)
        return estimate_tokens(self.chars + beside)


def count_chars(message: Message) -> int:
    """Length of a message in characters, including the arguments of its calls."""
    if isinstance(message, AssistantTurn):
        return len(message.text) + sum(len(call.raw) for call in message.calls)
    return len(message.text)


def count_tool_chars(specs: Iterable[ToolSpec]) -> int:
    """Approximate length of tool specs in characters."""
    return sum(len(spec.name) + len(spec.description) + len(str(spec.input_schema)) for spec in specs)


def estimate_tokens(chars: int) -> int:
    """Estimated tokens of *chars* characters, rounded up."""
    return -(-chars // CHARS_PER_TOKEN)


def find_boundaries(messages: Sequence[Message]) -> Iterator[int]:
    """Indexes at which the messages can be cut in two without separating a tool call from its answer."""
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        if not waiting and not isinstance(message, ToolAnswer):
            yield index
        if isinstance(message, AssistantTurn):
            waiting |= {call.id for call in message.calls}
        elif isinstance(message, ToolAnswer):
            waiting.discard(message.call_id)
    if not waiting:
        yield len(messages)


def choose_cut(messages: Sequence[Message], keep_turns: int) -> int | None:
    """Choose the number of messages to summarise; None if a summary is not worth it.

    1. The last *keep_turns* user messages stay with everything after them; if there are fewer, the last one. With 0
       nothing stays.
    2. If that leaves too little to summarise, as in a run with one long turn, the cut falls inside the turn and keeps
       only the last few messages.
    """
    safe = set(find_boundaries(messages))
    instructions = [
        index for index, message in enumerate(messages) if isinstance(message, UserText) and not message.summary
    ]
    if not keep_turns:
        at = len(messages)
    elif len(instructions) >= keep_turns:
        at = instructions[-keep_turns]
    else:
        at = instructions[-1] if instructions else 0
    if at in safe and at >= MIN_CUT_MESSAGES:
        return at
    inside = [index for index in safe if MIN_CUT_MESSAGES <= index <= len(messages) - KEPT_MESSAGES_IN_TURN]
    return max(inside, default=None)
