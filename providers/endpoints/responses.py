"""OpenAI Responses API: writes requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Self

import attrs

from providers.base import AssistantTurn, Emit, Message, Request, ToolAnswer, ToolCall, ToolSpec, UserText
from providers.endpoints.arguments import render_call_arguments
from providers.endpoints.dialects.output_items import CALL_PLACEHOLDER
from providers.endpoints.endpoint import Endpoint, encode_body, write_tools
from providers.endpoints.quirks import Quirks
from providers.endpoints.responses_stream import ResponseStream
from providers.registry import ProviderOptions
from store.events import Json

Item = dict[str, Json]


@attrs.frozen(kw_only=True)
class ResponsesQuirks(Quirks):
    """Quirks of a Responses endpoint."""

    no_encrypted_reasoning: bool = False
    """Encrypted reasoning is not requested, because the model does not reason and refuses the field."""

    def learn_from_words(self, said: str, request: Request, *, refused: bool) -> Self:  # noqa: ARG002 - every request
        """Learn from a refusal; see `Quirks.learn_from_words`."""
        if refused and ("encrypted" in said or "'include" in said or '"include' in said):
            return attrs.evolve(self, no_encrypted_reasoning=True)
        return self


class OpenAIResponses(Endpoint[ResponsesQuirks]):
    """A Responses endpoint. Its base URL leaves out `/responses`. The endpoint is asked to store nothing."""

    format_name: ClassVar[str] = "openai-responses"
    default_base_url: ClassVar[str] = "https://api.openai.com/v1"
    path: ClassVar[str] = "/responses"

    def initial_quirks(self) -> ResponsesQuirks:
        """Encrypted reasoning is requested."""
        return ResponsesQuirks()

    def encode_request(self, request: Request, quirks: ResponsesQuirks) -> bytes:
        """Encode the request; see `encode_request`."""
        return encode_request(request, quirks)

    def make_reader(self, request: Request, emit: Emit) -> ResponseStream:  # noqa: ARG002 - the format does not need it
        """A reader for a stream of items, or for one document."""
        return ResponseStream(emit, secrets=self._secrets)


def encode_request(request: Request, quirks: ResponsesQuirks) -> bytes:
    """Encode a request as JSON."""
    body: dict[str, Any] = {
        "model": request.model,
        "input": _write_input(request.messages),
        "store": False,
        "stream": True,
    }
    if request.instructions:
        body["instructions"] = request.instructions
    if not quirks.no_encrypted_reasoning:
        body["include"] = ["reasoning.encrypted_content"]
    if request.max_output_tokens is not None:
        body["max_output_tokens"] = request.max_output_tokens
    if request.reasoning_effort is not None:
        body["reasoning"] = {"effort": request.reasoning_effort}
    return encode_body(body | write_tools(request, _write_tool))


def _write_tool(tool: ToolSpec) -> Item:
    """Write a tool. Not strict: strict mode requires more of a schema than the tools guarantee."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.input_schema),
        "strict": False,
    }


def _write_input(messages: Iterable[Message]) -> list[Item]:
    """Write the conversation. The result of a call has the type that belongs to the type of its call."""
    written: list[Item] = []
    custom: set[Json] = set()
    for message in messages:
        for item in _write_items(message):
            kind, call_id = item.get("type"), item.get("call_id")
            if kind == "custom_tool_call" and isinstance(call_id, str):
                custom.add(call_id)
            if kind == "function_call_output" and call_id in custom:
                item["type"] = "custom_tool_call_output"
            written.append(item)
    return written


def _write_items(message: Message) -> Iterator[Item]:
    match message:
        case UserText():
            yield {"type": "message", "role": "user", "content": message.text}
        case ToolAnswer():
            yield {"type": "function_call_output", "call_id": message.call_id, "output": message.text}
        case AssistantTurn():
            yield from _write_turn(message)


def _write_turn(turn: AssistantTurn) -> Iterator[Item]:
    """Write a turn as the model produced it, with its reasoning items in place."""
    kept = _read_kept_items(turn.continuation)
    places = sum(item.get("type") == CALL_PLACEHOLDER for item in kept)
    if kept and places == len(turn.calls) and _join_text(kept) == turn.text:
        following = iter(turn.calls)
        for item in kept:
            yield _write_call(next(following), item) if item.get("type") == CALL_PLACEHOLDER else item
        return
    # The turn was shortened since, or has only text and calls. An endpoint refuses reasoning that is not followed by
    # its original items, so the reasoning is left out.
    if turn.text:
        yield {"type": "message", "role": "assistant", "content": turn.text}
    for call in turn.calls:
        yield _write_call(call, {})


def _write_call(call: ToolCall, place: Item) -> Item:
    """Write a call, with the fields that came with it, which its placeholder has."""
    extra = place.get("extra")
    fields: Item = dict(extra) if isinstance(extra, dict) else {}
    fields |= {"call_id": call.id, "name": call.name}
    if isinstance(given := place.get("input"), str):
        return {**fields, "type": "custom_tool_call", "input": given}
    return {"type": "function_call", **fields, "arguments": render_call_arguments(call)}


def _join_text(items: list[Item]) -> str:
    """The text of the messages among *items*."""
    contents = [item.get("content") for item in items if item.get("type") == "message"]
    parts = [part for content in contents if isinstance(content, list) for part in content if isinstance(part, dict)]
    return "".join(str(part.get("text", "")) for part in parts if part.get("type") in ("output_text", "text"))


def _read_kept_items(continuation: Json) -> list[Item]:
    items = continuation.get("items") if isinstance(continuation, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def open_provider(options: ProviderOptions) -> OpenAIResponses:
    """Open an endpoint at `options.base_url`, by default OpenAI's.

    Raises:
        UsageError: the base URL or the key is invalid.
    """
    return OpenAIResponses.open_endpoint(options)
