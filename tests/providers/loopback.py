"""A loopback server whose every answer is written by the test, byte by byte."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from asyncio.streams import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any


class Exchange:
    """One request that has been read, and the connection to answer it on."""

    def __init__(self, server: Loopback, reader: StreamReader, writer: StreamWriter, connection: int) -> None:
        self.server = server
        self.reader = reader
        self.writer = writer
        self.connection = connection
        self.path = ""
        self.headers: dict[str, str] = {}
        self.body = b""

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)

    async def read(self) -> bool:
        """The next request of the connection; False when there is none."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            self.path = first.split()[1]
            self.headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
            self.body = await self.reader.readexactly(int(self.headers.get("content-length", "0")))
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        return True

    async def raw(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self, status: int = 200, **headers: Any) -> None:
        """Status line and headers of a chunked answer."""
        headers = {"content_type": "text/event-stream", "transfer_encoding": "chunked"} | headers
        lines = [f"HTTP/1.1 {status} X", *(f"{k.replace('_', '-')}: {v}" for k, v in headers.items() if v is not None)]
        await self.raw("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def chunk(self, data: bytes) -> None:
        await self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    async def event(self, document: Any) -> None:
        await self.chunk(b"data: %s\n\n" % (document if isinstance(document, bytes) else json.dumps(document).encode()))

    async def end(self) -> None:
        await self.raw(b"0\r\n\r\n")

    async def whole(self, body: bytes, status: int = 200, **headers: Any) -> None:
        """An answer at once, with its length."""
        await self.head(status, transfer_encoding=None, content_length=len(body), **headers)
        await self.raw(body)

    async def text(self, *pieces: str, finish: str = "stop", done: bool = True) -> None:
        """A streamed answer."""
        await self.head()
        for piece in pieces:
            await self.event(delta(piece))
        await self.event(delta("", finish))
        if done:
            await self.event(b"[DONE]")
            await self.end()

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        """Close with RST."""
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def gone(self) -> None:
        """Wait until the client has closed."""
        try:
            while await self.reader.read(4096):
                pass
        except ConnectionError:
            pass


class Loopback:
    """What the server saw."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self.open = 0
        self.peak = 0
        self.requests: list[tuple[str, dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


def delta(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


@asynccontextmanager
async def serving(script: Callable[..., Any]) -> AsyncIterator[Loopback]:
    """A server on a free port that answers every request by `await script(exchange)`."""
    seen = Loopback()
    tasks = set()

    async def talk(reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        tasks.add(task)
        seen.connections += 1
        exchange = Exchange(seen, reader, writer, seen.connections)
        try:
            while not writer.is_closing() and await exchange.read():
                seen.requests.append((exchange.path, dict(exchange.headers), exchange.body))
                seen.open += 1
                seen.peak = max(seen.peak, seen.open)
                try:
                    await script(exchange)
                finally:
                    seen.open -= 1
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    seen.port = server.sockets[0].getsockname()[1]
    try:
        yield seen
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
