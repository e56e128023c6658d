"""Anthropic Messages endpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

from providers.base import AssistantTurn, Emit, Message, Request, ToolAnswer, ToolSpec, UserText
from providers.endpoints.anthropic_stream import CALL, MessageStream
from providers.endpoints.endpoint import Endpoint, encoded, with_tools
from providers.endpoints.quirks import Quirks
from providers.registry import ProviderOptions
from store.events import Json

VERSION = "2023-06-01"
"""Of the format; sent with every request."""
DEFAULT_MAX_TOKENS = 16_384
"""The output limit of a request that has none; the format demands one."""
_NO_ANSWER = "This call was not run."

Block = dict[str, Json]


class AnthropicMessages(Endpoint[Quirks]):
    """A Messages endpoint; its base URL goes up to and without `/v1/messages`, or without `/messages`."""

    format_name: ClassVar[str] = "anthropic"
    default_base_url: ClassVar[str] = "https://api.anthropic.com"
    root: ClassVar[str] = "/v1"
    path: ClassVar[str] = "/messages"

    def headers(self, api_key: str | None) -> dict[str, str]:
        """The key goes by a header of its own."""
        return {"anthropic-version": VERSION} | ({"x-api-key": api_key} if api_key is not None else {})

    def unlearnt(self) -> Quirks:
        """None are known."""
        return Quirks()

    def body(self, request: Request, quirks: Quirks) -> bytes:  # noqa: ARG002 - none are known
        """See `encode`."""
        return encode(request)

    def reader(self, request: Request, emit: Emit) -> MessageStream:  # noqa: ARG002 - the format does not need it
        """A reader of blocks or one document."""
        return MessageStream(emit, secrets=self._secrets)


def encode(request: Request) -> bytes:
    """The body of a request."""
    thinking, room = _thinking(request.reasoning_effort)
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": room + DEFAULT_MAX_TOKENS if request.max_output_tokens is None else request.max_output_tokens,
        "messages": _messages(request.messages),
        "stream": True,
    }
    if request.instructions:
        body["system"] = request.instructions
    return encoded(body | thinking | with_tools(request, _tool))


def _thinking(effort: str | None) -> tuple[dict[str, Json], int]:
    """What a reasoning effort is in this format, and how many tokens it takes out of the output limit.

    A word is an effort, with which the model decides itself how much it thinks; a number is a budget of tokens, as
    older models want it; `none` turns thinking off.
    """
    if effort is None:
        return {}, 0
    if effort == "none":
        return {"thinking": {"type": "disabled"}}, 0
    if effort.isascii() and effort.isdigit():
        budget = int(effort)
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}, budget
    return {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}, 0


def _tool(tool: ToolSpec) -> dict[str, Json]:
    return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.input_schema)}


# --- the conversation -------------------------------------------------------------------------------------------


def _messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages whose roles alternate; those of one role in a row become one."""
    written: list[dict[str, Any]] = []
    for role, blocks in _runs(messages):
        if not blocks:
            continue
        if written and written[-1]["role"] == role:
            written[-1]["content"] += blocks
        else:
            written.append({"role": role, "content": blocks})
    return written


def _runs(messages: Sequence[Message]) -> Iterator[tuple[Literal["user", "assistant"], list[Block]]]:
    """The blocks of each side by turns. What follows a turn with calls begins with exactly one result for each."""
    open_calls: list[str] = []
    results: dict[str, Block] = {}
    said: list[Block] = []
    for message in messages:
        match message:
            case AssistantTurn():
                yield "user", _replies(open_calls, results, said)
                yield "assistant", _turn(message)
                open_calls, results, said = [call.id for call in message.calls], {}, []
            case ToolAnswer() if message.call_id in open_calls:
                results.setdefault(message.call_id, _result(message.call_id, message.text, error=message.is_error))
            case ToolAnswer():  # its call is no longer part of the conversation, and a result alone is refused
                said += _text(f"Result of {message.name}:\n{message.text}")
            case UserText():
                said += _text(message.text)
    yield "user", _replies(open_calls, results, said)


def _replies(open_calls: Sequence[str], results: dict[str, Block], said: list[Block]) -> list[Block]:
    answered = [results.get(call_id) or _result(call_id, _NO_ANSWER, error=True) for call_id in open_calls]
    return [*answered, *said]


def _result(call_id: str, text: str, *, error: bool) -> Block:
    result: Block = {"type": "tool_result", "tool_use_id": call_id}
    if text:
        result["content"] = text
    if error:
        result["is_error"] = True
    return result


def _text(text: str) -> list[Block]:
    """A text as blocks; one without a visible character is refused, so it is none."""
    return [{"type": "text", "text": text}] if text.strip() else []


def _turn(turn: AssistantTurn) -> list[Block]:
    """The turn as it was: where the model thought, block by block."""
    calls: list[Block] = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments or {})}
        for call in turn.calls
    ]
    kept = _kept(turn.continuation)
    if not kept:
        return [*_text(turn.text), *calls]
    text = "".join(str(block.get("text", "")) for block in kept if block.get("type") == "text")
    places = sum(block.get("type") == CALL for block in kept)
    if text != turn.text or places != len(calls):
        # The turn was shortened since. What the model thought still comes first, as the format wants it.
        thoughts = [block for block in kept if block.get("type") in ("thinking", "redacted_thinking")]
        return [*thoughts, *_text(turn.text), *calls]
    following = iter(calls)
    return [
        next(following) if block.get("type") == CALL else block
        for block in kept
        if block.get("type") != "text" or str(block.get("text", "")).strip()
    ]


def _kept(continuation: Json) -> list[Block]:
    blocks = continuation.get("blocks") if isinstance(continuation, dict) else None
    return [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []


def open_provider(options: ProviderOptions) -> AnthropicMessages:
    """Open an endpoint: `options.base_url`, else Anthropic's own.

    Raises:
        UsageError: the base URL or the key cannot be used.
    """
    return AnthropicMessages.opened(options)
