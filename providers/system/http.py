"""HTTP client, the only one of the product: connection pool, timeouts, size limits, and errors as `ProviderError`.

httpx is imported with the first request, never at start. Requests use httpx's transport directly: its client would add
redirects (which must not receive a key), cookies, authentication and hooks, and none of them is wanted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from importlib import import_module
from socket import SHUT_RDWR
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attrs

from providers.errors import ProviderError
from providers.system.codings import MAX_STEP_BYTES, Decoder, open_decoder
from providers.system.transport_errors import CONNECT_TIMEOUT_S, build_transport_error, translate_error
from store.errors import UsageError

if TYPE_CHECKING:
    import ssl

    import httpx  # noqa: TID251 - this is the place, and only a request needs it

FIRST_BYTE_TIMEOUT_S = 120.0
IDLE_TIMEOUT_S = 60.0
TOKEN_IDLE_TIMEOUT_S = 600.0
"""Timeout between two signs of work in seconds: models reason for minutes behind keep-alives."""
MAX_BODY_BYTES = 256 * 1024 * 1024
"""Maximum decoded size of a response body in bytes."""
CLOSE_TIMEOUT_S = 2.0
"""Seconds that closing a connection may delay a cancellation."""


def render_url(url: str) -> str:
    """Render *url* for messages: scheme, host, port and path, without user, password and query. Without a scheme or
    host, only the quoted path is rendered.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return "(an unreadable URL)"
    if not parts.scheme or not host:
        # `user:password@host/v1` is a scheme and a path to the parser
        return "(an unreadable URL)" if "@" in url else repr(parts.path)
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}{parts.path}"


def check_base_url(url: str) -> str:
    """Validate a user's base URL and remove its trailing slash.

    Raises:
        UsageError: it is not http or https, has no host or an invalid port, or contains credentials.
    """
    hint = "Give a URL such as http://127.0.0.1:8080/v1."
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError as error:
        raise UsageError("the base URL cannot be read", hint) from error
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            f"the base URL {render_url(url)} holds credentials, which would end up in records",
            "Name the variable that holds the key (--api-key-env) instead.",
        )
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"the base URL {render_url(url)} is not an http or https URL", hint)
    return parts._replace(path=parts.path.rstrip("/"), fragment="").geturl()


class _SocketWatchdog:
    """Read timeout: shuts down a socket that receives nothing in time, which ends a waiting read.

    It needs one timer per response instead of one cancel scope per piece, of which a stream has hundreds.
    """

    def __init__(self, socket: Any, by: float) -> None:
        import asyncio  # noqa: PLC0415 - start-up: only running needs an event loop

        self._loop = asyncio.get_running_loop()
        self._socket = socket
        self._by = by
        self._sign_by = float("inf")
        self._bytes_since_sign = False
        self._timer = self._loop.call_at(by, self._check_deadline)
        self.expired = False
        """True once time ran out; what the reader sees after that comes from the shutdown, not from the server."""
        self.without_sign = False
        """True if bytes arrived until the end, but none that the caller counts as a sign of work."""

    def extend_deadline(self, allowed_s: float) -> None:
        """Restart the timeout after a received piece, with *allowed_s* seconds for the next."""
        self._by = self._loop.time() + allowed_s
        self._bytes_since_sign = True
        if self._by < self._timer.when():
            self._timer.cancel()
            self._timer = self._loop.call_at(self._by, self._check_deadline)

    def expect_sign_in(self, allowed_s: float) -> None:
        """Restart the timeout for the next sign of work."""
        self.expect_sign(self._loop.time() + allowed_s)

    def expect_sign(self, by: float) -> None:
        """Set the deadline for the next sign of work, in loop time."""
        self._sign_by = by
        self._bytes_since_sign = False
        if by < self._timer.when():
            self._timer.cancel()
            self._timer = self._loop.call_at(by, self._check_deadline)

    def stop(self) -> None:
        self._timer.cancel()

    def _check_deadline(self) -> None:
        by = min(self._by, self._sign_by)
        if self._loop.time() < by:
            self._timer = self._loop.call_at(by, self._check_deadline)
            return
        self.expired = True
        # a connection that fell silent has stalled, whichever of two equal timeouts ends it
        self.without_sign = self._bytes_since_sign and self._sign_by <= self._loop.time()
        # A closed socket has nothing to shut down, and its reader does not wait.
        with suppress(OSError):
            self._socket.shutdown(SHUT_RDWR)


@attrs.define(eq=False, kw_only=True)
class HttpResponse:
    """A response with an unread body. Valid only inside `HttpPool.post` and `HttpPool.get`."""

    status: int
    headers: dict[str, str]
    """Headers by lower-case name; a repeated header has its last value."""
    where: str
    """The URL for messages, without credentials."""
    _stream: AsyncIterator[bytes]
    _watchdog: _SocketWatchdog
    _idle_s: float
    _first_byte_by: float
    _encoding: str
    _taken: int = 0
    _opened: bool = False
    _decoder: Decoder | None = None

    def expect_sign_in(self, allowed_s: float) -> None:
        """Give the body *allowed_s* seconds until its next sign of work, besides the limit on the next byte."""
        self._watchdog.expect_sign_in(allowed_s)

    def expect_first_sign(self) -> None:
        """Give the body the time of its first byte for its first sign of work."""
        self._watchdog.expect_sign(self._first_byte_by)

    async def read_chunks(self) -> AsyncIterator[bytes]:
        """Yield the decoded body while it arrives. May be called again to continue after a `break`.

        Raises:
            ProviderError: `timeout` if no byte arrived in time, `truncated` if the connection broke, `bad_payload` if
            the
                body cannot be decoded or is larger than 256 MiB.
        """
        import httpx  # noqa: PLC0415, TID251 - this is the place, and only a request needs it

        stream, watchdog = self._stream, self._watchdog
        decoder = self._open_decoder_once()
        while True:
            try:
                piece = await anext(stream)
            except StopAsyncIteration:
                break
            except (httpx.TransportError, httpx.StreamError, OSError) as error:
                if watchdog.expired:
                    raise self._build_timeout_error() from error
                raise translate_error(error, self.where, mid_stream=True) from error
            watchdog.extend_deadline(self._idle_s)
            for decoded in (piece,) if decoder is None else decoder.feed(piece):
                self._taken += len(decoded)
                if self._taken > MAX_BODY_BYTES:
                    message = f"{self.where}: the answer is larger than {MAX_BODY_BYTES >> 20} MiB"
                    raise build_transport_error("bad_payload", message, mid_stream=True, retryable=False)
                if decoded:
                    yield decoded
        if watchdog.expired:  # a body without a length ends with its connection, even if the timeout closed it
            raise self._build_timeout_error()
        if decoder is not None and not decoder.finished:
            raise build_transport_error("truncated", f"{self.where}: the compressed body ended early", mid_stream=True)

    def _open_decoder_once(self) -> Decoder | None:
        """The decoder of the body. Opened with the first read, so that a status counts whatever the body's coding."""
        if not self._opened:
            self._decoder, self._opened = open_decoder(self._encoding, self.where), True
        return self._decoder

    async def read_start(self, limit: int) -> bytes:
        """Read at most *limit* bytes of the body. On an error, return the part received and do not raise."""
        taken = bytearray()
        # The status already says that the request failed; half an explanation is better than a second error.
        with suppress(ProviderError):
            async for chunk in self.read_chunks():
                taken += chunk
                if len(taken) >= limit:
                    break
        return bytes(taken[:limit])

    async def drain_body(self, within_s: float) -> None:
        """Read the rest so that the connection can be reused; give both up after *within_s* seconds or 1 MiB."""
        import anyio  # noqa: PLC0415 - start-up: only running needs an event loop

        with anyio.move_on_after(within_s):
            await self.read_start(MAX_STEP_BYTES)

    def _build_timeout_error(self) -> ProviderError:
        what = "the answer stalled" if self._taken else "no byte of the response body arrived in time"
        kept_alive = self._watchdog.without_sign and self._taken > 0
        if kept_alive:
            what = "the answer stalled: only keep-alives arrived"
        error = build_transport_error("timeout", f"{self.where}: {what}", mid_stream=True)
        error.kept_alive = kept_alive
        return error


def preload_http_client() -> None:
    """Import the HTTP libraries in advance, so that measurements of the first requests do not include it."""
    for name in ("anyio._backends._asyncio", "httpcore._backends.anyio", "httpx"):
        import_module(name)


class HttpPool:
    """Connection pool with keep-alive: one httpx transport per connection.

    A shared transport would be slower: httpcore's pool checks the state of every connection several times per request,
    which makes a request a third more expensive with ten connections and ten times as expensive with a hundred. With
    one connection per transport, a request costs the same at any concurrency.
    """

    def __init__(self, *, proxy: str | None = None) -> None:
        """Send every request through *proxy* (`http://host:port`) if given; the environment's proxies are ignored."""
        self._proxy = proxy
        self._free: dict[str, list[httpx.AsyncHTTPTransport]] = {}
        """Idle transports by origin. The last one used is taken first, as it is least likely to be closed."""
        self._busy: set[httpx.AsyncHTTPTransport] = set()
        self._closed = False
        self._contexts: dict[bool, ssl.SSLContext] = {}
        self._urls: dict[str, httpx.URL] = {}

    def __repr__(self) -> str:
        return f"<HttpPool: {self.clients} clients, {len(self._busy)} in use>"

    @property
    def clients(self) -> int:
        """Number of transports; none has more than one connection."""
        return len(self._busy) + sum(map(len, self._free.values()))

    def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        first_byte_s: float = FIRST_BYTE_TIMEOUT_S,
        idle_s: float = IDLE_TIMEOUT_S,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Send *body* by POST; the context starts when the response's headers have arrived. Redirects are not followed.

        *first_byte_s* limits the time until the first byte of the body, *idle_s* the time between two pieces of it;
        there is no limit on the whole. Leaving the context closes a connection whose response was not read to its
        end.

        Raises:
            ProviderError: `network` (no connection, or closed without a response), `timeout`, `truncated`,
                `bad_payload`; the original error is its cause, and its message contains no credential.
            UsageError: *url* is not a URL.
        """
        return self._send_request("POST", url, headers, body, None, first_byte_s, idle_s)

    def get(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        address: str,
        first_byte_s: float = FIRST_BYTE_TIMEOUT_S,
        idle_s: float = IDLE_TIMEOUT_S,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Request *url* by GET from *address*, an IP address of its host, otherwise as `post`.

        No name is resolved, so that the request goes to the very address that the caller has checked. The certificate
        must be valid for the host.
        """
        return self._send_request("GET", url, headers, None, address, first_byte_s, idle_s)

    @asynccontextmanager
    async def _send_request(  # noqa: PLR0917 - `post` and `get` above are all that call it
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        address: str | None,
        first_byte_s: float,
        idle_s: float,
    ) -> AsyncIterator[HttpResponse]:
        import anyio  # noqa: PLC0415 - start-up: only running needs an event loop
        import httpx  # noqa: PLC0415, TID251 - this is the place, and only a request needs it

        where = render_url(url)
        target = self._parse_url(url)
        extensions: dict[str, Any] = {
            "timeout": {"connect": CONNECT_TIMEOUT_S, "read": None, "write": first_byte_s, "pool": CONNECT_TIMEOUT_S}
        }
        origin = f"{target.scheme}://{target.netloc.decode('ascii')}"
        if address is not None:
            headers = {"Host": target.netloc.decode("ascii"), **headers}
            extensions["sni_hostname"] = target.host
            origin = f"{origin} at {address}"
            target = target.copy_with(host=address)
        request = httpx.Request(method, target, headers=headers, content=body, extensions=extensions)
        free = self._free.setdefault(origin, [])
        transport = free.pop() if free else self._open_transport(secure=target.scheme == "https")
        self._busy.add(transport)
        reusable = False
        try:
            first_byte_by = anyio.current_time() + first_byte_s
            try:
                with anyio.CancelScope(deadline=first_byte_by) as scope:
                    answer = await transport.handle_async_request(request)
            except (httpx.TransportError, OSError) as error:
                raise translate_error(error, where, mid_stream=False) from error
            if scope.cancelled_caught:
                raise build_transport_error("timeout", f"{where}: no answer within {first_byte_s:g} s")
            body_stream = answer.stream
            assert isinstance(body_stream, httpx.AsyncByteStream)
            watchdog = _SocketWatchdog(answer.extensions["network_stream"].get_extra_info("socket"), first_byte_by)
            try:
                received = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in answer.headers.raw}
                yield HttpResponse(
                    status=answer.status_code,
                    headers=received,
                    where=where,
                    stream=aiter(body_stream),
                    watchdog=watchdog,
                    idle_s=idle_s,
                    first_byte_by=first_byte_by,
                    encoding=received.get("content-encoding", ""),
                )
            finally:
                watchdog.stop()
                with anyio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
                    await body_stream.aclose()
                    reusable = True
        finally:
            self._busy.discard(transport)
            if reusable and not self._closed:
                free.append(transport)
            else:
                # After an error or a cancellation before the response, httpcore may count a connection that it never
                # opened, so the transport cannot be reused.
                with anyio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
                    await transport.aclose()

    async def aclose(self) -> None:
        """Close every connection. Requests in flight fail; later ones use a new connection each."""
        import anyio  # noqa: PLC0415 - start-up: only running needs an event loop

        self._closed = True
        transports = [*self._busy, *(transport for free in self._free.values() for transport in free)]
        self._free.clear()
        for transport in transports:
            with anyio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
                await transport.aclose()

    def _open_transport(self, *, secure: bool) -> httpx.AsyncHTTPTransport:
        import httpx  # noqa: PLC0415, TID251 - this is the place, and only a request needs it

        return httpx.AsyncHTTPTransport(
            verify=self._find_tls_context(secure=secure),
            trust_env=False,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
            proxy=self._proxy,
        )

    def _find_tls_context(self, *, secure: bool) -> ssl.SSLContext:
        """The shared TLS context. Plain HTTP gets one without authorities, since loading those takes 20 ms or more."""
        if secure not in self._contexts:
            import ssl  # noqa: PLC0415 - start-up: only https needs it

            import httpx  # noqa: PLC0415, TID251 - this is the place, and only a request needs it

            made = httpx.create_ssl_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            self._contexts[secure] = made
        return self._contexts[secure]

    def _parse_url(self, url: str) -> httpx.URL:
        if url not in self._urls:
            import httpx  # noqa: PLC0415, TID251 - this is the place, and only a request needs it

            try:
                self._urls[url] = httpx.URL(url)
            except (httpx.InvalidURL, ValueError) as error:
                raise UsageError(f"{render_url(url)} is not a valid URL") from error
        return self._urls[url]
