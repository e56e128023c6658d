"""Loopback HTTP server for the conformance kit: a function writes each response, byte by byte.

With full control over the bytes, faults of endpoints (broken streams, missing ends) are easy to reproduce.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import anyio
import attrs
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.buffered import BufferedByteReceiveStream

_MAX_HEAD_BYTES = 65_536


@attrs.frozen(kw_only=True)
class SeenRequest:
    """A received request."""

    headers: dict[str, str]
    body: bytes


@attrs.define(kw_only=True)
class LoopbackServer:
    """A running loopback server: its URL and the requests it has received."""

    url: str
    seen: list[SeenRequest] = attrs.field(factory=list[SeenRequest])


@attrs.define(kw_only=True)
class Exchange:
    """One received request and the connection for its response."""

    stream: ByteStream

    async def send_head(self, status: int, content_type: str, *more: str) -> None:
        """Send the status line and headers of a response that ends when its connection closes."""
        lines = [f"HTTP/1.1 {status} -", f"content-type: {content_type}", "connection: close", *more, "", ""]
        await self.stream.send("\r\n".join(lines).encode())

    async def send_body(self, body: bytes) -> None:
        """Send a part of the body."""
        if body:
            await self.stream.send(body)

    async def wait_until_closed(self) -> None:
        """Wait until the client has closed the connection."""
        try:
            while True:
                await self.stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return

    async def send_nothing(self) -> None:
        """Send no response."""


@asynccontextmanager
async def serve_loopback(behave: Callable[[Exchange], Awaitable[None]]) -> AsyncIterator[LoopbackServer]:
    """Run a server on a free loopback port that passes every request to *behave* and then closes its connection."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - a socket's attribute, not Django's
    server = LoopbackServer(url=f"http://127.0.0.1:{port}/v1")

    async def answer_connection(stream: ByteStream) -> None:
        async with stream:
            try:
                server.seen.append(await _read_request(stream))
                await behave(Exchange(stream=stream))
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                return  # the client may leave at any time

    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, answer_connection)
        try:
            yield server
        finally:
            group.cancel_scope.cancel()


async def _read_request(stream: ByteStream) -> SeenRequest:
    buffered = BufferedByteReceiveStream(stream)
    head = (await buffered.receive_until(b"\r\n\r\n", _MAX_HEAD_BYTES)).decode("latin-1")
    headers = dict(_split_headers(head.split("\r\n")[1:]))
    if "content-length" in headers:
        body = await buffered.receive_exactly(int(headers["content-length"]))
    elif "chunked" in headers.get("transfer-encoding", ""):
        body = await _read_chunked_body(buffered)
    else:
        body = b""
    return SeenRequest(headers=headers, body=body)


async def _read_chunked_body(buffered: BufferedByteReceiveStream) -> bytes:
    body = bytearray()
    while size := int((await buffered.receive_until(b"\r\n", 64)).partition(b";")[0], 16):
        body += await buffered.receive_exactly(size)
        await buffered.receive_exactly(2)
    return bytes(body)


def _split_headers(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    for line in lines:
        name, _, value = line.partition(":")
        yield name.strip().lower(), value.strip()
