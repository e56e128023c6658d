"""Ollama chat API: writes requests.

Ollama silently truncates a prompt that is longer than the model's loaded context. So every request states the context
that it needs, and asks newer servers to refuse instead of truncating.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, ClassVar

from providers.base import AssistantTurn, Emit, Message, Request, ToolAnswer, UserText
from providers.endpoints.endpoint import Endpoint, encode_body, write_function_tool, write_messages, write_tools
from providers.endpoints.ollama_stream import OllamaStream
from providers.endpoints.quirks import Quirks
from providers.registry import ProviderOptions
from store.events import Json

MIN_CONTEXT_TOKENS = 8_192
MAX_CONTEXT_TOKENS = 131_072
"""Maximum context in tokens, since the server reserves memory for all of it. The server caps it at the model's own
maximum."""
BYTES_PER_TOKEN = 2
"""Less than the average of any language or code, so that the context is rather too large than too small."""
DEFAULT_OUTPUT_TOKENS = 4_096
"""Tokens of context reserved for an answer without an output limit."""

_NUMBERED_CALL_ID = re.compile(r"call_(\d{1,9})")
_THINK_SWITCHES: dict[str, bool] = {"none": False, "off": False, "false": False, "on": True, "true": True}


class OllamaChat(Endpoint[Quirks]):
    """An Ollama server. Its base URL leaves out `/api/chat` or `/chat`."""

    format_name: ClassVar[str] = "ollama"
    default_base_url: ClassVar[str] = "http://127.0.0.1:11434"
    root: ClassVar[str] = "/api"
    path: ClassVar[str] = "/chat"
    accept: ClassVar[str] = "application/x-ndjson"

    @cached_property
    def _contexts(self) -> dict[str, int]:
        """Largest requested context by model. It never shrinks, since concurrent runs with different contexts would
        make the server reload the model at every request.
        """
        return {}

    def initial_quirks(self) -> Quirks:
        """No quirks are known for this API."""
        return Quirks()

    def encode_request(self, request: Request, quirks: Quirks) -> bytes:  # noqa: ARG002 - none are known
        """Encode the request; see `encode_request`."""
        self._contexts[request.model] = tokens = max(choose_context_size(request), self._contexts.get(request.model, 0))
        return encode_request(request, tokens)

    def make_reader(self, request: Request, emit: Emit) -> OllamaStream:
        """A reader of JSON lines that continues the numbering of the conversation's calls."""
        return OllamaStream(emit, secrets=self._secrets, first_call=find_first_call_number(request))


def encode_request(request: Request, tokens: int) -> bytes:
    """Encode a request as JSON with *tokens* of context."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": write_messages(request, _write_message),
        "stream": True,
        "truncate": False,
        "shift": False,
        "options": {"num_ctx": tokens},
    }
    if request.max_output_tokens is not None:
        body["options"]["num_predict"] = request.max_output_tokens
    if request.reasoning_effort is not None:
        body["think"] = _THINK_SWITCHES.get(request.reasoning_effort, request.reasoning_effort)
    return encode_body(body | write_tools(request, write_function_tool))


def choose_context_size(request: Request) -> int:
    """Tokens of context for a request and its answer, rounded up to a power of two, since the server reloads the model
    at every change.
    """
    size = len(encode_request(request, MAX_CONTEXT_TOKENS))
    room = DEFAULT_OUTPUT_TOKENS if request.max_output_tokens is None else request.max_output_tokens
    wanted = size // BYTES_PER_TOKEN + room
    return min(MAX_CONTEXT_TOKENS, max(MIN_CONTEXT_TOKENS, 1 << (wanted - 1).bit_length()))


def find_first_call_number(request: Request) -> int:
    """The number for the next call without an id: one more than the largest in the conversation."""
    ids = [call.id for turn in request.messages if isinstance(turn, AssistantTurn) for call in turn.calls]
    return 1 + max((int(match[1]) for call_id in ids if (match := _NUMBERED_CALL_ID.fullmatch(call_id))), default=0)


def _write_message(message: Message) -> dict[str, Json]:
    match message:
        case UserText():
            return {"role": "user", "content": message.text}
        case ToolAnswer():
            return {
                "role": "tool",
                "tool_name": message.name,
                "tool_call_id": message.call_id,
                "content": message.text,
            }
        case AssistantTurn():
            turn: dict[str, Json] = {"role": "assistant", "content": message.text}
            if message.calls:
                turn["tool_calls"] = _write_calls(message)
                if message.reasoning:
                    turn["thinking"] = message.reasoning
            return turn


def _write_calls(turn: AssistantTurn) -> list[Json]:
    """Write the calls of a turn, with the fields that came with them."""
    kept = turn.continuation.get("calls") if isinstance(turn.continuation, dict) else None
    extras = kept if isinstance(kept, list) and len(kept) == len(turn.calls) else [None] * len(turn.calls)
    written: list[Json] = []
    for call, extra in zip(turn.calls, extras, strict=True):
        fields: dict[str, Json] = {**extra} if isinstance(extra, dict) else {}
        inner = fields.get("function")
        function: dict[str, Json] = {**inner} if isinstance(inner, dict) else {}
        function |= {"name": call.name, "arguments": dict(call.arguments or {})}
        written.append({**fields, "id": call.id, "function": function})
    return written


def open_provider(options: ProviderOptions) -> OllamaChat:
    """Open a server at `options.base_url`, by default the one on this machine.

    Raises:
        UsageError: the base URL or the key is invalid.
    """
    return OllamaChat.open_endpoint(options)
