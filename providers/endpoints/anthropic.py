"""Anthropic Messages API: writes requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

from providers.base import AssistantTurn, Emit, Message, Request, ToolAnswer, ToolSpec, UserText
from providers.endpoints.anthropic_stream import CALL_PLACEHOLDER, MessageStream
from providers.endpoints.endpoint import Endpoint, encode_body, write_tools
from providers.endpoints.quirks import Quirks
from providers.registry import ProviderOptions
from store.events import Json

API_VERSION = "2023-06-01"
"""API version, sent with every request."""
DEFAULT_MAX_TOKENS = 16_384
"""Output limit of a request without one, since the API requires it."""
_UNANSWERED_CALL_TEXT = "This call was not run."

Block = dict[str, Json]


class AnthropicMessages(Endpoint[Quirks]):
    """A Messages endpoint. Its base URL leaves out `/v1/messages` or `/messages`."""

    format_name: ClassVar[str] = "anthropic"
    default_base_url: ClassVar[str] = "https://api.anthropic.com"
    root: ClassVar[str] = "/v1"
    path: ClassVar[str] = "/messages"

    def make_headers(self, api_key: str | None) -> dict[str, str]:
        """The version, and the key in a header of its own."""
        return {"anthropic-version": API_VERSION} | ({"x-api-key": api_key} if api_key is not None else {})

    def initial_quirks(self) -> Quirks:
        """No quirks are known for this API."""
        return Quirks()

    def encode_request(self, request: Request, quirks: Quirks) -> bytes:  # noqa: ARG002 - none are known
        """Encode the request; see `encode_request`."""
        return encode_request(request)

    def make_reader(self, request: Request, emit: Emit) -> MessageStream:  # noqa: ARG002 - the format does not need it
        """A reader for a stream of blocks, or for one document."""
        return MessageStream(emit, secrets=self._secrets)


def encode_request(request: Request) -> bytes:
    """Encode a request as JSON."""
    thinking, room = _translate_effort(request.reasoning_effort)
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": room + DEFAULT_MAX_TOKENS if request.max_output_tokens is None else request.max_output_tokens,
        "messages": _write_messages(request.messages),
        "stream": True,
    }
    if request.instructions:
        body["system"] = request.instructions
    return encode_body(body | thinking | write_tools(request, _write_tool))


def _translate_effort(effort: str | None) -> tuple[dict[str, Json], int]:
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


def _write_tool(tool: ToolSpec) -> dict[str, Json]:
    return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.input_schema)}


# --- the conversation -------------------------------------------------------------------------------------------


def _write_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Write messages with alternating roles: consecutive messages of one role become one."""
    written: list[dict[str, Any]] = []
    for role, blocks in _group_by_role(messages):
        if not blocks:
            continue
        if written and written[-1]["role"] == role:
            written[-1]["content"] += blocks
        else:
            written.append({"role": role, "content": blocks})
    return written


def _group_by_role(messages: Sequence[Message]) -> Iterator[tuple[Literal["user", "assistant"], list[Block]]]:
    """Yield (role, blocks) in order. The blocks after a turn with calls begin with exactly one result for each call."""
    open_calls: list[str] = []
    results: dict[str, Block] = {}
    said: list[Block] = []
    for message in messages:
        match message:
            case AssistantTurn():
                yield "user", _order_replies(open_calls, results, said)
                yield "assistant", _write_turn(message)
                open_calls, results, said = [call.id for call in message.calls], {}, []
            case ToolAnswer() if message.call_id in open_calls:
                results.setdefault(
                    message.call_id, _write_tool_result(message.call_id, message.text, error=message.is_error)
                )
            case ToolAnswer():  # its call was compacted away, and the API refuses a result without a call
                said += _write_text(f"Result of {message.name}:\n{message.text}")
            case UserText():
                said += _write_text(message.text)
    yield "user", _order_replies(open_calls, results, said)


def _order_replies(open_calls: Sequence[str], results: dict[str, Block], said: list[Block]) -> list[Block]:
    answered = [
        results.get(call_id) or _write_tool_result(call_id, _UNANSWERED_CALL_TEXT, error=True) for call_id in open_calls
    ]
    return [*answered, *said]


def _write_tool_result(call_id: str, text: str, *, error: bool) -> Block:
    result: Block = {"type": "tool_result", "tool_use_id": call_id}
    if text:
        result["content"] = text
    if error:
        result["is_error"] = True
    return result


def _write_text(text: str) -> list[Block]:
    """Write a text as blocks. The API refuses a text without a visible character, so it becomes no block."""
    return [{"type": "text", "text": text}] if text.strip() else []


def _write_turn(turn: AssistantTurn) -> list[Block]:
    """Write a turn as the model produced it, with its thinking blocks in place."""
    calls: list[Block] = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments or {})}
        for call in turn.calls
    ]
    kept = _read_kept_blocks(turn.continuation)
    if not kept:
        return [*_write_text(turn.text), *calls]
    text = "".join(str(block.get("text", "")) for block in kept if block.get("type") == "text")
    places = sum(block.get("type") == CALL_PLACEHOLDER for block in kept)
    if text != turn.text or places != len(calls):
        # The turn was shortened since. Its thinking still comes first, as the API requires.
        thoughts = [block for block in kept if block.get("type") in ("thinking", "redacted_thinking")]
        return [*thoughts, *_write_text(turn.text), *calls]
    following = iter(calls)
    return [
        _read_extra_fields(block) | next(following) if block.get("type") == CALL_PLACEHOLDER else block
        for block in kept
        if block.get("type") != "text" or str(block.get("text", "")).strip()
    ]


def _read_extra_fields(placeholder: Block) -> Block:
    extra = placeholder.get("extra")
    return dict(extra) if isinstance(extra, dict) else {}


def _read_kept_blocks(continuation: Json) -> list[Block]:
    blocks = continuation.get("blocks") if isinstance(continuation, dict) else None
    return [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []


def open_provider(options: ProviderOptions) -> AnthropicMessages:
    """Open an endpoint at `options.base_url`, by default Anthropic's.

    Raises:
        UsageError: the base URL or the key is invalid.
    """
    return AnthropicMessages.open_endpoint(options)
