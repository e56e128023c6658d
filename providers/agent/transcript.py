"""What has been said in a run so far: how long it is, and where it can be cut between calls and their answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs

from providers.base import AssistantTurn, Message, ToolAnswer, ToolSpec, UserText
from providers.usage import Usage

CHARS_PER_TOKEN = 4
"""A rough rule, for what no provider has counted yet."""
LEAST_CUT = 2
"""Fewer messages than this are not worth a summary."""
KEPT_IN_TURN = 4
"""So many messages stay where the cut has to fall inside a user's turn."""


@attrs.define(kw_only=True)
class Transcript:
    """The messages of a run and their length."""

    messages: list[Message] = attrs.field(factory=list[Message])
    chars: int = 0
    _reported: int | None = None
    """Tokens of the last answered request and its answer, as the provider counted them."""
    _newer: int = 0
    """Characters added since."""

    def append(self, message: Message, usage: Usage | None = None) -> None:
        """Add a message; *usage* is what the provider reported with it."""
        self.messages.append(message)
        chars = weight(message)
        self.chars += chars
        if usage is not None and usage.input is not None and usage.output is not None:
            self._reported, self._newer = usage.input + usage.output, 0
        else:
            self._newer += chars

    def replace(self, messages: Iterable[Message]) -> None:
        """Put other messages in the place of all; what the provider counted no longer holds."""
        self.messages = [*messages]
        self.chars = sum(map(weight, self.messages))
        self._reported, self._newer = None, 0

    def tokens(self, beside: int) -> int:
        """Tokens that the next request will have, roughly; *beside* are characters of instructions and tools."""
        if self._reported is not None:
            return self._reported + tokens_of(self._newer)
        return tokens_of(self.chars + beside)


def weight(message: Message) -> int:
    """Characters of a message."""
    if isinstance(message, AssistantTurn):
        return len(message.text) + sum(len(call.raw) for call in message.calls)
    return len(message.text)


def weight_of_tools(specs: Iterable[ToolSpec]) -> int:
    """Characters of the descriptions of tools, roughly."""
    return sum(len(spec.name) + len(spec.description) + len(str(spec.input_schema)) for spec in specs)


def tokens_of(chars: int) -> int:
    """Tokens that so many characters are, roughly."""
    return -(-chars // CHARS_PER_TOKEN)


def boundaries(messages: Sequence[Message]) -> Iterator[int]:
    """Where the messages can be cut in two: no call before it waits for an answer behind it, and none answers behind it
    what was called before.
    """
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


def cut(messages: Sequence[Message], keep_turns: int) -> int | None:
    """How many messages to summarise; None where that is not worth it.

    1. The last *keep_turns* things the user said stay, with all that followed; where there are fewer, the last one.
       With 0 nothing stays.
    2. Where that leaves too little to summarise, as in a run that has one long turn, the cut falls inside the turn, as
       late as leaves the last few messages.
    """
    safe = set(boundaries(messages))
    said = [index for index, message in enumerate(messages) if isinstance(message, UserText) and not message.summary]
    if not keep_turns:
        at = len(messages)
    elif len(said) >= keep_turns:
        at = said[-keep_turns]
    else:
        at = said[-1] if said else 0
    if at in safe and at >= LEAST_CUT:
        return at
    inside = [index for index in safe if LEAST_CUT <= index <= len(messages) - KEPT_IN_TURN]
    return max(inside, default=None)
