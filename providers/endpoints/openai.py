"""OpenAI chat completions API, which many other servers implement: writes requests."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Self

import attrs

from providers.base import AssistantTurn, Emit, Message, Request, ToolAnswer, UserText
from providers.endpoints.arguments import render_call_arguments
from providers.endpoints.endpoint import Endpoint, encode_body, write_function_tool, write_messages, write_tools
from providers.endpoints.openai_stream import REASONING_CONTENT, ChatStream
from providers.endpoints.quirks import Quirks
from providers.registry import ProviderOptions
from store.events import Json


@attrs.frozen(kw_only=True)
class ChatQuirks(Quirks):
    """Quirks of a chat completions endpoint."""

    no_stream_options: bool = False
    """The endpoint refuses `stream_options`, so usage is not requested."""
    max_completion_tokens: bool = False
    """The output limit is sent as `max_completion_tokens`."""

    bare_turns: bool = False
    """Fields of an answer beyond the specification are not sent back."""

    def learn_from_words(self, said: str, request: Request, *, refused: bool) -> Self:
        """Learn the quirk that the refusal mentions; see `Quirks.learn_from_words`."""
        if not self.no_stream_options and "stream_options" in said:
            return attrs.evolve(self, no_stream_options=True)
        if not self.max_completion_tokens and refused and ("max_tokens" in said or "max_completion_tokens" in said):
            return attrs.evolve(self, max_completion_tokens=True)
        if not self.bare_turns and refused and any(name.lower() in said for name in _list_extra_names(request)):
            return attrs.evolve(self, bare_turns=True)
        return self


class OpenAIChat(Endpoint[ChatQuirks]):
    """A chat completions endpoint. Its base URL leaves out `/chat/completions`."""

    format_name: ClassVar[str] = "openai"
    default_base_url: ClassVar[str] = "https://api.openai.com/v1"
    path: ClassVar[str] = "/chat/completions"

    def initial_quirks(self) -> ChatQuirks:
        """Usage is requested, and the output limit has the name that all servers know."""
        return ChatQuirks()

    def encode_request(self, request: Request, quirks: ChatQuirks) -> bytes:
        """Encode the request; see `encode_request`."""
        return encode_request(request, quirks)

    def make_reader(self, request: Request, emit: Emit) -> ChatStream:  # noqa: ARG002 - the format does not need it
        """A reader for a stream of chunks, or for one document."""
        return ChatStream(emit, secrets=self._secrets)


def encode_request(request: Request, quirks: ChatQuirks) -> bytes:
    """Encode a request as JSON."""
    write = partial(_write_message, bare=quirks.bare_turns)
    body: dict[str, Any] = {"model": request.model, "messages": write_messages(request, write), "stream": True}
    if not quirks.no_stream_options:
        body["stream_options"] = {"include_usage": True}
    if request.max_output_tokens is not None:
        limit = "max_completion_tokens" if quirks.max_completion_tokens else "max_tokens"
        body[limit] = request.max_output_tokens
    if request.reasoning_effort is not None:
        body["reasoning_effort"] = request.reasoning_effort
    return encode_body(body | write_tools(request, write_function_tool))


def _write_message(message: Message, *, bare: bool) -> dict[str, Json]:
    match message:
        case UserText():
            return {"role": "user", "content": message.text}
        case ToolAnswer():
            return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
        case AssistantTurn():
            turn: dict[str, Json] = {"role": "assistant", "content": message.text or (None if message.calls else "")}
            if message.calls:
                kept = message.continuation if isinstance(message.continuation, dict) else {}
                turn["tool_calls"] = _write_calls(message, None if bare else kept.get("calls"))
                if message.reasoning and kept.get("reasoning_field") == REASONING_CONTENT:
                    turn[REASONING_CONTENT] = message.reasoning
            if not bare:
                turn = _read_extras(message) | turn
            return turn


def _write_calls(turn: AssistantTurn, kept: Json) -> list[Json]:
    """Write the calls of a turn, with the fields that came with them."""
    extras = kept if isinstance(kept, list) and len(kept) == len(turn.calls) else [{}] * len(turn.calls)
    written: list[Json] = []
    for call, extra in zip(turn.calls, extras, strict=True):
        extra = extra if isinstance(extra, dict) else {}  # noqa: PLW2901 - a recording may hold anything
        custom = extra.get("custom")
        if isinstance(custom, dict):
            written.append({**extra, "id": call.id, "type": "custom", "custom": {**custom, "name": call.name}})
            continue
        inner = extra.get("function")
        function: dict[str, Json] = {**inner} if isinstance(inner, dict) else {}
        function |= {"name": call.name, "arguments": render_call_arguments(call)}
        written.append({**extra, "id": call.id, "type": "function", "function": function})
    return written


def _read_extras(turn: AssistantTurn) -> dict[str, Json]:
    """The fields that came with the message itself."""
    kept = turn.continuation.get("message") if isinstance(turn.continuation, dict) else None
    return dict(kept) if isinstance(kept, dict) else {}


def _list_extra_names(request: Request) -> set[str]:
    """The names of all fields beyond the specification that the request sends back."""
    names: set[str] = set()
    for message in request.messages:
        if isinstance(message, AssistantTurn) and isinstance(message.continuation, dict):
            kept = message.continuation.get("calls")
            for holder in (message.continuation.get("message"), *(kept if isinstance(kept, list) else ())):
                if isinstance(holder, dict):
                    names |= holder.keys() - {"function", "custom"}
                    inner = holder.get("function")
                    names |= set(inner) if isinstance(inner, dict) else set()
    return names


def open_provider(options: ProviderOptions) -> OpenAIChat:
    """Open an endpoint at `options.base_url`, by default OpenAI's.

    Raises:
        UsageError: the base URL or the key is invalid.
    """
    return OpenAIChat.open_endpoint(options)
