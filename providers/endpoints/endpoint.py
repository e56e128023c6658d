"""An endpoint that is posted JSON and answers it: what the providers of all wire formats do alike.

A format says where to post, how a request is written and who reads the answer; keys, deadlines, status before body,
refusals and what is learnt from them are here. It asks once.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar
from urllib.parse import urlsplit

from providers.base import Answer, Body, Emit, Request, Responded, ToolSpec
from providers.endpoints.credential import account_of, bearer, checked_key, headers_of_posts
from providers.endpoints.faults import MAX_ERROR_BODY, excerpt, refusal
from providers.endpoints.quirks import Quirks
from providers.endpoints.reader import AnswerReader
from providers.errors import ErrorKind, ProviderError
from providers.registry import ProviderOptions
from providers.system.http import FIRST_BYTE_S, IDLE_S, HttpPool, HttpResponse, checked_base
from store.events import Json

DRAIN_S = 0.25
"""How long the end of a body may take after its terminal marker before the connection is given up."""
MAX_KEPT = 1024 * 1024
"""Bytes of a body that are kept where bodies are kept at all: more than any recording of an answer may have."""
_REQUEST_IDS = ("x-request-id", "request-id", "x-generation-id")

Q = TypeVar("Q", bound=Quirks)


class Endpoint(ABC, Generic[Q]):
    """An endpoint of one wire format; implements `providers.base.Provider`.

    Args:
        base_url: with or without the format's root; the path is added.
        api_key: None sends none.
        pool: closed with this provider.
        name: the provider's, by default the format's.
        first_byte_s: how long the first byte of an answer may take, unless its request says otherwise.
        idle_s: how long a begun answer may pause.
        wall: microseconds since 1970, for waits given as a date by endpoints that do not tell the time.
        keep_bodies: whether each answer's body is handed over, too.

    Raises:
        UsageError: the base URL or the key cannot be used.
    """

    format_name: ClassVar[str]
    """The name the format's provider is known by."""
    default_base_url: ClassVar[str]
    root: ClassVar[str] = ""
    """What every path of this format starts with; a base URL that ends with it already is taken as it is."""
    path: ClassVar[str]
    """Where requests go, below the root."""
    accept: ClassVar[str] = "text/event-stream"

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str | None,
        pool: HttpPool,
        name: str | None = None,
        first_byte_s: float = FIRST_BYTE_S,
        idle_s: float = IDLE_S,
        wall: Callable[[], int] | None = None,
        keep_bodies: bool = False,
    ) -> None:
        base = urlsplit(checked_base(base_url))
        checked_key(api_key)
        root = "" if base.path.endswith(self.root) else self.root
        self._url = base._replace(path=f"{base.path}{root}{self.path}").geturl()
        self._name = name or self.format_name
        self._secrets = (api_key,) if api_key is not None else ()
        self._headers = headers_of_posts(accept=self.accept) | self.headers(api_key)
        self._account = account_of(base.geturl(), api_key)
        self._pool = pool
        self._first_byte_s = first_byte_s
        self._idle_s = idle_s
        self._wall = wall
        self._keep_bodies = keep_bodies
        self._quirks = self.unlearnt()
        self._written: tuple[Request, Q, bytes] | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._account}>"

    @classmethod
    def opened(cls, options: ProviderOptions) -> Self:
        """Open the endpoint that the options name: their base URL, else the format's usual one.

        Raises:
            UsageError: the base URL or the key cannot be used.
        """
        return cls(
            base_url=options.base_url or cls.default_base_url,
            api_key=options.api_key,
            pool=HttpPool(proxy=options.proxy),
            first_byte_s=options.first_token_timeout_ms / 1000,
            idle_s=options.idle_timeout_ms / 1000,
            wall=options.wall,
            keep_bodies=options.keep_bodies,
        )

    # --- what a format says -------------------------------------------------------------------------------------

    @abstractmethod
    def unlearnt(self) -> Q:
        """The quirks of an endpoint that has refused nothing yet."""

    @abstractmethod
    def body(self, request: Request, quirks: Q) -> bytes:
        """The request as this format writes it."""

    @abstractmethod
    def reader(self, request: Request, emit: Emit) -> AnswerReader:
        """Who reads the answer to *request*."""

    def headers(self, api_key: str | None) -> dict[str, str]:
        """The headers that this format adds, the credential's among them."""
        return bearer(api_key)

    # --- the port -----------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The provider's plain name."""
        return self._name

    @property
    def account(self) -> str:
        """Endpoint and a digest of the key."""
        return self._account

    @property
    def quirks(self) -> Q:
        """What the endpoint has turned out not to take."""
        return self._quirks

    def size(self, request: Request) -> int:
        """Bytes of the encoded body, as it would be sent now."""
        return len(self._body(request, self._quirks))

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """Ask once.

        A refusal that teaches a quirk is remembered, and its error is retryable: the next try is sent without what
        was refused. As that is not sent again, it cannot be refused again.

        Raises:
            ProviderError: no whole answer came.
        """
        quirks = self._quirks
        headers = self._headers | ({"Idempotency-Key": request.key} if request.key else {})
        body, self._written = self._body(request, quirks), None
        timeout_ms = request.first_token_timeout_ms
        first_byte_s = self._first_byte_s if timeout_ms is None else timeout_ms / 1000
        posted = self._pool.post(self._url, headers, body, first_byte_s=first_byte_s, idle_s=self._idle_s)
        async with posted as response:
            emit(Responded(status=response.status, provider_request_id=_request_id(response.headers)))
            if not 200 <= response.status < 300:
                raise await self._refused(response, quirks, emit)
            try:
                return await self._read(response, request, emit)
            except ProviderError as error:
                error.status = response.status
                raise

    def _body(self, request: Request, quirks: Q) -> bytes:
        """The encoded request: who asks for its size mostly sends it next, and need not have it written twice."""
        if self._written is None or self._written[0] is not request or self._written[1] is not quirks:
            self._written = (request, quirks, self.body(request, quirks))
        return self._written[2]

    def reread(self, status: int, body: bytes, request: Request, emit: Emit) -> Answer:
        """Read the recorded answer to *request* as it was read when it came. Nothing is sent or learnt.

        Raises:
            ProviderError: what was recorded is no whole answer.
        """
        emit(Responded(status=status))
        if not 200 <= status < 300:
            raise refusal(status, {}, body, secrets=self._secrets, wall=self._wall)
        reader = self.reader(request, emit)
        try:
            reader.feed(body)
            return reader.finish()
        except ProviderError as error:
            error.status = status
            raise

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    async def _read(self, response: HttpResponse, request: Request, emit: Emit) -> Answer:
        reader, kept = self.reader(request, emit), bytearray()
        broke: ProviderError | None = None
        try:
            async for piece in response.chunks():
                if self._keep_bodies:
                    kept += piece[: MAX_KEPT - len(kept)]
                reader.feed(piece)
                if reader.done:
                    await response.drain(DRAIN_S)
                    break
        except ProviderError as error:
            broke = error
        kind: ErrorKind | None = None
        try:
            return reader.finish() if broke is None else reader.broken(broke)
        except ProviderError as error:
            kind = error.kind
            raise
        finally:
            # What broke off does not always tell so: half a body says nothing of time that ran out, and a connection
            # may break right behind the last word.
            content = bytes(kept)
            if self._keep_bodies and (broke is None or self._reread_as(response.status, content, request) == kind):
                emit(Body(status=response.status, content=content))

    def _reread_as(self, status: int, body: bytes, request: Request) -> ErrorKind | None:
        """The kind of the error that *body* is, read again; None where it is an answer."""
        try:
            self.reread(status, body, request, lambda _item: None)
        except ProviderError as error:
            return error.kind
        return None

    async def _refused(self, response: HttpResponse, sent_by: Q, emit: Emit) -> ProviderError:
        body = await response.start(MAX_ERROR_BODY)
        if self._keep_bodies:
            emit(Body(status=response.status, content=body))
        error = refusal(response.status, response.headers, body, secrets=self._secrets, wall=self._wall)
        learnt = sent_by.after(error, body.decode("utf-8", "replace"))
        if learnt != sent_by:
            self._quirks = self._quirks.joined(learnt)
            error.retryable = True
        return error


def encoded(body: Mapping[str, Any]) -> bytes:
    """A body on the wire. Lone surrogates, which a model can produce and no endpoint takes, become `?`.

    Raises:
        ProviderError: `invalid_request`: something in it is nested too deeply to be written.
    """
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    except RecursionError as error:
        message = "the request is nested too deeply to be written"
        raise ProviderError(kind="invalid_request", message=message, retryable=False) from error


def with_tools(request: Request, write: Callable[[ToolSpec], dict[str, Json]]) -> dict[str, Any]:
    """The body's list of tools, which is left out when empty: ours as the format writes them, native ones as given."""
    tools = [*map(write, request.tools), *request.native_tools]
    return {"tools": tools} if tools else {}


def function_tool(tool: ToolSpec) -> dict[str, Json]:
    """A tool as chat completions and Ollama write it."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.input_schema)}
    return {"type": "function", "function": function}


def _request_id(headers: Mapping[str, str]) -> str | None:
    given = next((headers[name] for name in _REQUEST_IDS if headers.get(name)), None)
    return excerpt(given) if given is not None else None
