"""Base class of HTTP endpoints: everything that does not depend on the wire format.

A format defines the path, the encoding of a request and the reader of an answer. This class handles keys, timeouts, the
status before the body, and refusals with the quirks learnt from them. Each request is sent once.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar
from urllib.parse import urlsplit

from providers.base import Answer, Body, Emit, Message, Request, Responded, ToolSpec
from providers.endpoints.credential import build_bearer_header, build_post_headers, check_key, derive_account
from providers.endpoints.faults import MAX_ERROR_BODY_BYTES, build_refusal, clean_excerpt
from providers.endpoints.quirks import Quirks
from providers.endpoints.reader import AnswerReader
from providers.errors import ErrorKind, ProviderError
from providers.registry import ProviderOptions
from providers.system.http import (
    FIRST_BYTE_TIMEOUT_S,
    IDLE_TIMEOUT_S,
    TOKEN_IDLE_TIMEOUT_S,
    HttpPool,
    HttpResponse,
    check_base_url,
)
from store.events import Json

DRAIN_TIMEOUT_S = 0.25
"""Seconds to read the rest of a body after its terminal marker, before the connection is closed."""
MAX_KEPT_BYTES = 1024 * 1024
"""Maximum bytes of a kept body (`keep_bodies`): more than a recording may contain."""
_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-generation-id")

Q = TypeVar("Q", bound=Quirks)


class Endpoint(ABC, Generic[Q]):
    """An endpoint of one wire format; implements `providers.base.Provider`.

    Args:
        base_url: with or without the format's root; the path is appended.
        api_key: None sends no key.
        pool: closed together with this provider.
        name: the provider's name, by default the format's.
        first_byte_s: timeout for the first byte of an answer in seconds, unless the request has its own.
        idle_s: timeout between two pieces of an answer, in seconds.
        token_idle_s: timeout between two signs of the model's work, in seconds; keep-alives are none.
        wall: wall clock in microseconds since 1970 UTC, for a Retry-After date without a Date header.
        keep_bodies: whether each raw body is emitted, too.

    Raises:
        UsageError: the base URL or the key is invalid.
    """

    format_name: ClassVar[str]
    """The name of the format's provider."""
    default_base_url: ClassVar[str]
    root: ClassVar[str] = ""
    """Prefix of every path of this format; not added to a base URL that ends with it."""
    path: ClassVar[str]
    """Path of requests below the root."""
    accept: ClassVar[str] = "text/event-stream"

    def __init__(  # noqa: PLR0913 - one default per limit, of which callers name those they change
        self,
        *,
        base_url: str,
        api_key: str | None,
        pool: HttpPool,
        name: str | None = None,
        first_byte_s: float = FIRST_BYTE_TIMEOUT_S,
        idle_s: float = IDLE_TIMEOUT_S,
        token_idle_s: float = TOKEN_IDLE_TIMEOUT_S,
        wall: Callable[[], int] | None = None,
        keep_bodies: bool = False,
    ) -> None:
        base = urlsplit(check_base_url(base_url))
        check_key(api_key)
        root = "" if base.path.endswith(self.root) else self.root
        self._url = base._replace(path=f"{base.path}{root}{self.path}").geturl()
        self._name = name or self.format_name
        self._secrets = (api_key,) if api_key is not None else ()
        self._headers = build_post_headers(accept=self.accept) | self.make_headers(api_key)
        self._account = derive_account(base.geturl(), api_key)
        self._pool = pool
        self._first_byte_s = first_byte_s
        self._idle_s = idle_s
        self._token_idle_s = token_idle_s
        self._wall = wall
        self._keep_bodies = keep_bodies
        self._quirks = self.initial_quirks()
        self._written: tuple[Request, Q, bytes] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._account}>"

    @classmethod
    def open_endpoint(cls, options: ProviderOptions) -> Self:
        """Open the endpoint at the options' base URL, else at the format's default one.

        Raises:
            UsageError: the base URL or the key is invalid.
        """
        return cls(
            base_url=options.base_url or cls.default_base_url,
            api_key=options.api_key,
            pool=HttpPool(proxy=options.proxy),
            first_byte_s=options.first_token_timeout_ms / 1000,
            idle_s=options.idle_timeout_ms / 1000,
            token_idle_s=options.token_idle_timeout_ms / 1000,
            wall=options.wall,
            keep_bodies=options.keep_bodies,
        )

    # --- for each format ---------------------------------------------------------------------------------------

    @abstractmethod
    def initial_quirks(self) -> Q:
        """The initial quirks, before any refusal."""

    @abstractmethod
    def encode_request(self, request: Request, quirks: Q) -> bytes:
        """Encode the request in this format."""

    @abstractmethod
    def make_reader(self, request: Request, emit: Emit) -> AnswerReader:
        """Create the reader for the answer to *request*."""

    def make_headers(self, api_key: str | None) -> dict[str, str]:
        """The headers of this format, including the credential's."""
        return build_bearer_header(api_key)

    # --- the port -----------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The provider's name."""
        return self._name

    @property
    def account(self) -> str:
        """The endpoint and a digest of the key."""
        return self._account

    @property
    def quirks(self) -> Q:
        """The quirks learnt from the endpoint's refusals so far."""
        return self._quirks

    def size(self, request: Request) -> int:
        """Size in bytes of the encoded body with the current quirks."""
        return len(self._encode_body(request, self._quirks))

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """Send the request once.

        A quirk learnt from a refusal is remembered and makes the error retryable: the next try leaves out the refused
        field, so the same refusal cannot repeat.

        Raises:
            ProviderError: no complete answer arrived.
        """
        quirks = self._quirks
        headers = self._headers | ({"Idempotency-Key": request.key} if request.key else {})
        body, self._written = self._encode_body(request, quirks), None
        timeout_ms = request.first_token_timeout_ms
        first_byte_s = self._first_byte_s if timeout_ms is None else timeout_ms / 1000
        posted = self._pool.post(self._url, headers, body, first_byte_s=first_byte_s, idle_s=self._idle_s)
        async with posted as response:
            emit(Responded(status=response.status, provider_request_id=_find_request_id(response.headers)))
            if not 200 <= response.status < 300:
                raise await self._read_refusal(response, request, quirks, emit)
            try:
                return await self._read_answer(response, request, emit)
            except ProviderError as error:
                error.status = response.status
                raise

    def _encode_body(self, request: Request, quirks: Q) -> bytes:
        """The encoded request, cached: a caller that asks for the size usually sends the request next."""
        if self._written is None or self._written[0] is not request or self._written[1] is not quirks:
            self._written = (request, quirks, self.encode_request(request, quirks))
        return self._written[2]

    def reread(self, status: int, body: bytes, request: Request, emit: Emit) -> Answer:
        """Read a recorded answer to *request* like the original one. Nothing is sent or learnt.

        Raises:
            ProviderError: the recording is a refusal or an incomplete answer.
        """
        emit(Responded(status=status))
        if not 200 <= status < 300:
            raise build_refusal(status, {}, body, secrets=self._secrets, wall=self._wall)
        reader = self.make_reader(request, emit)
        try:
            reader.feed(body)
            return reader.finish_answer()
        except ProviderError as error:
            error.status = status
            raise

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    async def _read_answer(self, response: HttpResponse, request: Request, emit: Emit) -> Answer:
        reader, kept = self.make_reader(request, emit), bytearray()
        broke: ProviderError | None = None
        signs = 0
        response.expect_first_sign()
        try:
            async for piece in response.read_chunks():
                if self._keep_bodies:
                    kept += piece[: MAX_KEPT_BYTES - len(kept)]
                reader.feed(piece)
                if reader.signs > signs:
                    signs = reader.signs
                    response.expect_sign_in(self._token_idle_s)
                if reader.done:
                    await response.drain_body(DRAIN_TIMEOUT_S)
                    break
        except ProviderError as error:
            broke = error
        kind: ErrorKind | None = None
        try:
            return reader.finish_answer() if broke is None else reader.finish_broken(broke)
        except ProviderError as error:
            kind = error.kind
            raise
        finally:
            # A body does not always show that it broke: half a body does not show a timeout, and a connection may break
            # right after the last word.
            content = bytes(kept)
            if self._keep_bodies and (
                broke is None or self._reread_error_kind(response.status, content, request) == kind
            ):
                emit(Body(status=response.status, content=content))

    def _reread_error_kind(self, status: int, body: bytes, request: Request) -> ErrorKind | None:
        """Read *body* again and return the kind of its error; None if it is an answer."""
        try:
            self.reread(status, body, request, lambda _item: None)
        except ProviderError as error:
            return error.kind
        return None

    async def _read_refusal(self, response: HttpResponse, request: Request, sent_by: Q, emit: Emit) -> ProviderError:
        body = await response.read_start(MAX_ERROR_BODY_BYTES)
        if self._keep_bodies:
            emit(Body(status=response.status, content=body))
        error = build_refusal(response.status, response.headers, body, secrets=self._secrets, wall=self._wall)
        learnt = sent_by.learn_from_error(error, body.decode("utf-8", "replace"), request)
        # A quirk that leaves this request as it is would only have it refused again.
        if learnt != sent_by and self.encode_request(request, learnt) != self.encode_request(request, sent_by):
            self._quirks = self._quirks.merge_with(learnt)
            error.retryable = True
        return error


def encode_body(body: Mapping[str, Any]) -> bytes:
    """Encode a request body as JSON. Lone surrogates, which models produce and no endpoint accepts, become `?`.

    Raises:
        ProviderError: `invalid_request`: the body is nested too deeply to encode.
    """
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    except RecursionError as error:
        message = "the request is nested too deeply to be written"
        raise ProviderError(kind="invalid_request", message=message, retryable=False) from error


def write_tools(request: Request, write: Callable[[ToolSpec], dict[str, Json]]) -> dict[str, Any]:
    """The `tools` field of a body: the agent's tools in this format and native tools as given; left out if empty."""
    tools = [*map(write, request.tools), *request.native_tools]
    return {"tools": tools} if tools else {}


def write_messages(request: Request, write: Callable[[Message], dict[str, Json]]) -> list[dict[str, Json]]:
    """The conversation as chat formats send it: the instructions as a system message, then each message by *write*."""
    instructions: list[dict[str, Json]] = []
    if request.instructions:
        instructions.append({"role": "system", "content": request.instructions})
    return [*instructions, *map(write, request.messages)]


def write_function_tool(tool: ToolSpec) -> dict[str, Json]:
    """Write a tool as a chat completions function, which Ollama uses too."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.input_schema)}
    return {"type": "function", "function": function}


def _find_request_id(headers: Mapping[str, str]) -> str | None:
    given = next((headers[name] for name in _REQUEST_ID_HEADERS if headers.get(name)), None)
    return clean_excerpt(given) if given is not None else None
