"""OpenAI chat completions API, which many other servers implement: writes requests."""

from __future__ import annotations

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

    def learn_from_words(self, said: str, *, refused: bool) -> Self:
        """Learn the quirk that the refusal mentions; see `Quirks.learn_from_words`."""
        if not self.no_stream_options and "stream_options" in said:
            return attrs.evolve(self, no_stream_options=True)
        if not self.max_completion_tokens and refused and ("max_tokens" in said or "max_completion_tokens" in said):
            return attrs.evolve(self, max_completion_tokens=True)
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
    body: dict[str, Any] = {"model": request.model, "messages": write_messages(request, _write_message), "stream": True}
    if not quirks.no_stream_options:
        body["stream_options"] = {"include_usage": True}
    if request.max_output_tokens is not None:
        limit = "max_completion_tokens" if quirks.max_completion_tokens else "max_tokens"
        body[limit] = request.max_output_tokens
    if request.reasoning_effort is not None:
        body["reasoning_effort"] = request.reasoning_effort
    return encode_body(body | write_tools(request, write_function_tool))


def _write_message(message: Message) -> dict[str, Json]:
    match message:
        case UserText():
            return {"role": "user", "content": message.text}
        case ToolAnswer():
            return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
        case AssistantTurn():
            turn: dict[str, Json] = {"role": "assistant", "content": message.text or (None if message.calls else "")}
            if message.calls:
                turn["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": render_call_arguments(call)},
                    }
                    for call in message.calls
                ]
                if message.reasoning and _wants_reasoning(message.continuation):
                    turn[REASONING_CONTENT] = message.reasoning
            return turn


def _wants_reasoning(continuation: Json) -> bool:
    return isinstance(continuation, dict) and continuation.get("reasoning_field") == REASONING_CONTENT


def open_provider(options: ProviderOptions) -> OpenAIChat:
    """Open an endpoint at `options.base_url`, by default OpenAI's.

    Raises:
        UsageError: the base URL or the key is invalid.
    """
    return OpenAIChat.open_endpoint(options)
