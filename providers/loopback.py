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

_HEAD_BYTES = 65_536


@attrs.frozen(kw_only=True)
class Seen:
    """A received request."""

    headers: dict[str, str]
    body: bytes


@attrs.define(kw_only=True)
class Server:
    """A running loopback server: its URL and the requests it has received."""

    url: str
    seen: list[Seen] = attrs.field(factory=list[Seen])


@attrs.define(kw_only=True)
class Exchange:
    """One received request and the connection for its response."""

    stream: ByteStream

    async def head(self, status: int, content_type: str, *more: str) -> None:
        """Send the status line and headers of a response that ends when its connection closes."""
        lines = [f"HTTP/1.1 {status} -", f"content-type: {content_type}", "connection: close", *more, "", ""]
        await self.stream.send("\r\n".join(lines).encode())

    async def send(self, body: bytes) -> None:
        """Send a part of the body."""
        if body:
            await self.stream.send(body)

    async def gone(self) -> None:
        """Wait until the client has closed the connection."""
        try:
            while True:
                await self.stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return

    async def ignore(self) -> None:
        """Send no response."""


@asynccontextmanager
async def serving(behave: Callable[[Exchange], Awaitable[None]]) -> AsyncIterator[Server]:
    """Run a server on a free loopback port that passes every request to *behave* and then closes its connection."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - a socket's attribute, not Django's
    server = Server(url=f"http://127.0.0.1:{port}/v1")

    async def serve(stream: ByteStream) -> None:
        async with stream:
            try:
                server.seen.append(await _read(stream))
                await behave(Exchange(stream=stream))
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                return  # the client may leave at any time

    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        try:
            yield server
        finally:
            group.cancel_scope.cancel()


async def _read(stream: ByteStream) -> Seen:
    buffered = BufferedByteReceiveStream(stream)
    head = (await buffered.receive_until(b"\r\n\r\n", _HEAD_BYTES)).decode("latin-1")
    headers = dict(_headers(head.split("\r\n")[1:]))
    if "content-length" in headers:
        body = await buffered.receive_exactly(int(headers["content-length"]))
    elif "chunked" in headers.get("transfer-encoding", ""):
        body = await _chunked(buffered)
    else:
        body = b""
    return Seen(headers=headers, body=body)


async def _chunked(buffered: BufferedByteReceiveStream) -> bytes:
    body = bytearray()
    while size := int((await buffered.receive_until(b"\r\n", 64)).partition(b";")[0], 16):
        body += await buffered.receive_exactly(size)
        await buffered.receive_exactly(2)
    return bytes(body)


def _headers(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    for line in lines:
        name, _, value = line.partition(":")
        yield name.strip().lower(), value.strip()
