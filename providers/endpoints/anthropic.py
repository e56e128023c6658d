"""Anthropic Messages API: writes requests."""

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
"""API version, sent with every request."""
DEFAULT_MAX_TOKENS = 16_384
"""Output limit of a request without one, since the API requires it."""
_NO_ANSWER = "This call was not run."

Block = dict[str, Json]


class AnthropicMessages(Endpoint[Quirks]):
    """A Messages endpoint. Its base URL leaves out `/v1/messages` or `/messages`."""

    format_name: ClassVar[str] = "anthropic"
    default_base_url: ClassVar[str] = "https://api.anthropic.com"
    root: ClassVar[str] = "/v1"
    path: ClassVar[str] = "/messages"

    def headers(self, api_key: str | None) -> dict[str, str]:
        """The version, and the key in a header of its own."""
        return {"anthropic-version": VERSION} | ({"x-api-key": api_key} if api_key is not None else {})

    def unlearnt(self) -> Quirks:
        """No quirks are known for this API."""
        return Quirks()

    def body(self, request: Request, quirks: Quirks) -> bytes:  # noqa: ARG002 - none are known
        """Encode the request; see `encode`."""
        return encode(request)

    def reader(self, request: Request, emit: Emit) -> MessageStream:  # noqa: ARG002 - the format does not need it
        """A reader for a stream of blocks, or for one document."""
        return MessageStream(emit, secrets=self._secrets)


def encode(request: Request) -> bytes:
    """Encode a request as JSON."""
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
    """Translate a reasoning effort into request fields, and the tokens that it takes out of the output limit.

    A word is an effort level for adaptive thinking; a number is a thinking budget in tokens, as older models require;
    `none` turns thinking off.
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
    """Write messages with alternating roles: consecutive messages of one role become one."""
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
    """Yield (role, blocks) in order. The blocks after a turn with calls begin with exactly one result for each call."""
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
            case ToolAnswer():  # its call was compacted away, and the API refuses a result without a call
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
    """Write a text as blocks. The API refuses a text without a visible character, so it becomes no block."""
    return [{"type": "text", "text": text}] if text.strip() else []


def _turn(turn: AssistantTurn) -> list[Block]:
    """Write a turn as the model produced it, with its thinking blocks in place."""
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
        # The turn was shortened since. Its thinking still comes first, as the API requires.
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
    """Open an endpoint at `options.base_url`, by default Anthropic's.

    Raises:
        UsageError: the base URL or the key is invalid.
    """
    return AnthropicMessages.opened(options)
