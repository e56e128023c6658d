"""Chat completions endpoints: OpenAI and everything that speaks its first language."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import attrs

from providers.base import (
    Answer,
    AssistantTurn,
    Emit,
    Message,
    ProviderError,
    Request,
    Responded,
    ToolAnswer,
    ToolCall,
    UserText,
)
from providers.completions import REASONING_CONTENT, ChatStream
from providers.faults import MAX_ERROR_BODY, excerpt, refusal
from providers.http import FIRST_BYTE_S, IDLE_S, HttpPool, HttpResponse, checked_base, shown
from providers.registry import ProviderOptions
from store.errors import UsageError
from store.events import Json

DEFAULT_BASE_URL = "https://api.openai.com/v1"
DRAIN_S = 0.25
"""How long the end of a body may take after its terminal marker before the connection is given up."""
_REQUEST_IDS = ("x-request-id", "request-id", "x-generation-id")
_UNSUPPORTED = (
    "unsupported",
    "not supported",
    "not support",
    "unknown",
    "unrecognized",
    "unexpected",
    "not permitted",
    "extra_forbidden",
    "not allowed",
    "instead",
)
"""Words by which endpoints refuse a field as such, not its value."""


@attrs.frozen(kw_only=True)
class Quirks:
    """What an endpoint has turned out not to take. Learnt from its refusals, once each."""

    no_stream_options: bool = False
    """Usage cannot be asked for in streams."""
    max_completion_tokens: bool = False
    """The output limit goes by its newer name."""

    def names(self) -> tuple[str, ...]:
        """Those that hold: a condition of what was measured."""
        return tuple(field.name for field in attrs.fields(type(self)) if getattr(self, field.name))

    def after(self, error: ProviderError, said: str) -> Quirks:
        """What is known after a refusal of a request that was made by these; the same if it teaches nothing."""
        said = said.lower()
        if error.status not in {400, 422} or error.kind != "invalid_request":
            return self
        if not self.no_stream_options and "stream_options" in said:
            return attrs.evolve(self, no_stream_options=True)
        refused = any(word in said for word in _UNSUPPORTED)
        if not self.max_completion_tokens and refused and ("max_tokens" in said or "max_completion_tokens" in said):
            return attrs.evolve(self, max_completion_tokens=True)
        return self

    def joined(self, other: Quirks) -> Quirks:
        """What either knows: two requests in flight may have learnt different things."""
        return Quirks(
            no_stream_options=self.no_stream_options or other.no_stream_options,
            max_completion_tokens=self.max_completion_tokens or other.max_completion_tokens,
        )


class OpenAIChat:
    """A chat completions endpoint.

    Args:
        base_url: up to and without `/chat/completions`.
        api_key: sent as a bearer token; None sends none.
        pool: closed with this provider.
        first_byte_s: how long the first byte of an answer may take.
        idle_s: how long a begun answer may pause.
        wall: microseconds since 1970, for waits given as a date by endpoints that do not tell the time.

    Raises:
        UsageError: the base URL or the key cannot be used.
    """

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str | None,
        pool: HttpPool,
        name: str = "openai",
        first_byte_s: float = FIRST_BYTE_S,
        idle_s: float = IDLE_S,
        wall: Callable[[], int] | None = None,
    ) -> None:
        base = urlsplit(checked_base(base_url))
        if api_key is not None and not (api_key and api_key.isascii() and api_key.isprintable()):
            raise UsageError(
                "the API key is empty or holds characters that no header can carry",
                "Look for a line break or a typographic quotation mark in the variable.",
            )
        self._url = base._replace(path=f"{base.path}/chat/completions").geturl()
        self._name = name
        self._secrets = (api_key,) if api_key is not None else ()
        self._authorization = {"Authorization": f"Bearer {api_key}"} if api_key is not None else {}
        owner = hashlib.sha256(api_key.encode()).hexdigest()[:8] if api_key is not None else "nokey"
        self._account = f"{shown(base.geturl())}#{owner}"
        self._pool = pool
        self._first_byte_s = first_byte_s
        self._idle_s = idle_s
        self._wall = wall
        self._quirks = Quirks()

    def __repr__(self) -> str:
        return f"<OpenAIChat {self._account}>"

    @property
    def name(self) -> str:
        """The provider's plain name."""
        return self._name

    @property
    def account(self) -> str:
        """Endpoint and a digest of the key."""
        return self._account

    @property
    def quirks(self) -> Quirks:
        """What the endpoint has turned out not to take."""
        return self._quirks

    def size(self, request: Request) -> int:
        """Bytes of the encoded body, as it would be sent now."""
        return len(encode(request, self._quirks))

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """Ask once.

        A refusal of `stream_options` or of `max_tokens` is remembered, and its error is retryable: the next try is
        sent without it. As such a field is not sent again, it cannot be refused again.

        Raises:
            ProviderError: no whole answer came.
        """
        quirks = self._quirks
        headers = {
            "Accept": "text/event-stream",
            "Accept-Encoding": "gzip",
            "Content-Type": "application/json",
            "User-Agent": "evalctl",
            **self._authorization,
        }
        if request.key:
            headers["Idempotency-Key"] = request.key
        posted = self._pool.post(
            self._url, headers, encode(request, quirks), first_byte_s=self._first_byte_s, idle_s=self._idle_s
        )
        async with posted as response:
            emit(Responded(status=response.status, provider_request_id=_request_id(response.headers)))
            if not 200 <= response.status < 300:
                raise await self._refused(response, quirks)
            try:
                return await _read(response, ChatStream(emit, secrets=self._secrets))
            except ProviderError as error:
                error.status = response.status
                raise

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    async def _refused(self, response: HttpResponse, sent_by: Quirks) -> ProviderError:
        body = await response.start(MAX_ERROR_BODY)
        error = refusal(response.status, response.headers, body, secrets=self._secrets, wall=self._wall)
        learnt = sent_by.after(error, body.decode("utf-8", "replace"))
        if learnt != sent_by:
            self._quirks = self._quirks.joined(learnt)
            error.retryable = True
        return error


async def _read(response: HttpResponse, stream: ChatStream) -> Answer:
    try:
        async for piece in response.chunks():
            stream.feed(piece)
            if stream.done:
                await response.drain(DRAIN_S)
                break
    except ProviderError as error:
        return stream.broken(error)
    return stream.finish()


def encode(request: Request, quirks: Quirks) -> bytes:
    """The body of a request. Lone surrogates, which a model can produce and no endpoint takes, become `?`."""
    body: dict[str, Any] = {"model": request.model, "messages": _messages(request), "stream": True}
    if not quirks.no_stream_options:
        body["stream_options"] = {"include_usage": True}
    if request.max_output_tokens is not None:
        limit = "max_completion_tokens" if quirks.max_completion_tokens else "max_tokens"
        body[limit] = request.max_output_tokens
    if request.reasoning_effort is not None:
        body["reasoning_effort"] = request.reasoning_effort
    tools = [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.input_schema)},
        }
        for tool in request.tools
    ]
    if tools or request.native_tools:
        body["tools"] = [*tools, *request.native_tools]
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _messages(request: Request) -> list[dict[str, Json]]:
    messages: list[dict[str, Json]] = []
    if request.instructions:
        messages.append({"role": "system", "content": request.instructions})
    messages += map(_message, request.messages)
    return messages


def _message(message: Message) -> dict[str, Json]:
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
                        "function": {"name": call.name, "arguments": _arguments(call)},
                    }
                    for call in message.calls
                ]
                if message.reasoning and _wants_reasoning(message.continuation):
                    turn[REASONING_CONTENT] = message.reasoning
            return turn


def _arguments(call: ToolCall) -> str:
    """As the model wrote them. What was no JSON object goes back as an empty one: templates of open models parse the
    arguments again and would refuse the whole request; the tool's answer says what was wrong.
    """
    if not call.arguments:
        return "{}"
    return call.raw or json.dumps(dict(call.arguments), ensure_ascii=False)


def _wants_reasoning(continuation: Json) -> bool:
    return isinstance(continuation, dict) and continuation.get("reasoning_field") == REASONING_CONTENT


def _request_id(headers: Mapping[str, str]) -> str | None:
    given = next((headers[name] for name in _REQUEST_IDS if headers.get(name)), None)
    return excerpt(given) if given is not None else None


def open_provider(options: ProviderOptions) -> OpenAIChat:
    """Open an endpoint: `options.base_url`, else OpenAI's own.

    Raises:
        UsageError: the base URL or the key cannot be used.
    """
    return OpenAIChat(
        base_url=options.base_url or DEFAULT_BASE_URL,
        api_key=options.api_key,
        pool=HttpPool(proxy=options.proxy),
        first_byte_s=options.first_token_timeout_ms / 1000,
        idle_s=options.idle_timeout_ms / 1000,
        wall=options.wall,
    )
