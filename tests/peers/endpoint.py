"""A counting OpenAI-compatible endpoint: a server of its own process that keeps its own books.

    python -m tests.peers.endpoint --port 0 --ledger FILE [--latency-ms N] [--plan FILE]

The first line on stdout is `{"port": ..., "pid": ...}`. Every request becomes one JSON line of the ledger file when it
has ended, whoever ended it. What it answers is in `behaviour.py`.

    POST /v1/chat/completions   the API, streamed or not
    GET  /ledger                counts as JSON: requests, answered, gone, in_flight, peak, held, statuses
    POST /release[?count=N]     let N held answers go; without a count all, now and later
    POST /plan                  a new plan, for requests that come after it

It speaks HTTP/1.1 with keep-alive on a bare asyncio protocol, because a witness must not be the bottleneck: about
0.2 ms of CPU a request, most of it the kernel's. It ends when its stdin is closed, so that it never outlives the test
that started it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import sys
import time  # noqa: TID251 - a witness has a clock of its own
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from tests.peers.behaviour import Behaviour, Plan, Step, filled, noise

Json = Any

HEAD_STREAM = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n"
    b"x-request-id: req-%d\r\n\r\n"
)
LAST = b"0\r\n\r\n"
POLL_S = 0.005
SHELF = memoryview(bytearray(65536))
"""Where every connection's bytes arrive; copied at once, so one is enough and none is allocated per read."""
REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


ENCODE = json.JSONEncoder(separators=(",", ":")).encode
LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
KEY = re.compile(rb"\r\nidempotency-key: *([^\r]*)", re.IGNORECASE)


def compact(value: Json) -> bytes:
    return ENCODE(value).encode("ascii")


@attrs.define(kw_only=True)
class Exchange:
    """One request from its arrival to its end."""

    seq: int
    key: str
    size: int
    at: float
    turn: int = 0
    stream: bool = False
    status: int = 200
    input_tokens: int = 0
    output_tokens: int = 0


class Books:
    """What the endpoint has seen: the counts, and the file they can be proven from."""

    def __init__(self, ledger: Path | None) -> None:
        self._file = (
            None if ledger is None else os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        )
        self.requests = 0
        self.answered = 0
        self.gone = 0
        self.peak = 0
        self.statuses: Counter[int] = Counter()
        self.open: dict[int, Exchange] = {}
        self.tries: Counter[str] = Counter()

    def arrive(self, key: str, size: int) -> Exchange:
        self.requests += 1
        self.tries[key] += 1
        exchange = Exchange(seq=self.requests, key=key, size=size, at=time.time())
        self.open[exchange.seq] = exchange
        self.peak = max(self.peak, len(self.open))
        return exchange

    def end(self, exchange: Exchange, *, gone: bool) -> None:
        del self.open[exchange.seq]
        self.gone += gone
        self.answered += not gone and exchange.status == 200
        self.statuses[exchange.status] += 1
        if self._file is not None:
            line = {
                "seq": exchange.seq,
                "key": exchange.key,
                "at": round(exchange.at, 6),
                "until": round(time.time(), 6),
                "status": exchange.status,
                "turn": exchange.turn,
                "stream": exchange.stream,
                "bytes": exchange.size,
                "peak": self.peak,
                "gone": gone,
                "input_tokens": exchange.input_tokens,
                "output_tokens": exchange.output_tokens,
            }
            os.write(self._file, compact(line) + b"\n")

    def close(self) -> None:
        """Write the lines of what was never finished."""
        for exchange in list(self.open.values()):
            self.end(exchange, gone=True)
        if self._file is not None:
            os.close(self._file)
            self._file = None


class House:
    """What all connections share: books, plan, and the answers that are held back."""

    def __init__(self, *, books: Books, plan: Plan, latency_ms: float) -> None:
        self.books = books
        self.plan = plan
        self.latency_ms = latency_ms
        self.held: dict[int, Callable[[], None]] = {}
        self.released = False
        self._frames: dict[tuple[object, ...], list[bytes]] = {}

    def replan(self, document: Json) -> None:
        self.plan = Plan(document)
        self._frames.clear()  # keyed by identity, which the old plan's objects may pass on

    def release(self, count: int | None) -> None:
        if count is None:
            self.released = True
        for seq in list(self.held)[:count]:
            self.held.pop(seq)()

    def counts(self) -> Json:
        books = self.books
        return {
            "requests": books.requests,
            "answered": books.answered,
            "gone": books.gone,
            "in_flight": len(books.open),
            "peak": books.peak,
            "held": len(self.held),
            "open": [exchange.key for exchange in books.open.values()],
            "statuses": {str(status): count for status, count in sorted(books.statuses.items())},
        }

    def frames(self, behaviour: Behaviour, step: Step, turn: int, model: str) -> list[bytes]:
        """The answer's pieces as chunks of an event stream, without usage and end."""
        key = (id(behaviour), id(step), turn, model)
        if (known := self._frames.get(key)) is None:
            known = self._frames[key] = stream_frames(step, behaviour.chunks, turn, model)
        return known


def event(choices: Json, model: str, **more: Json) -> bytes:
    """One server-sent event as one chunk of a chunked body."""
    data = b"data: %b\n\n" % compact(
        {"id": "chatcmpl-peer", "object": "chat.completion.chunk", "created": 0, "model": model, "choices": choices}
        | more
    )
    return b"%x\r\n%b\r\n" % (len(data), data)


def pieces(text: str, count: int) -> list[str]:
    width = max(1, -(-len(text) // max(1, count)))
    return [text[i : i + width] for i in range(0, len(text), width)]


def stream_frames(step: Step, chunks: int, turn: int, model: str) -> list[bytes]:
    def delta(fields: Json, finish: str | None = None) -> bytes:
        return event([{"index": 0, "delta": fields, "finish_reason": finish}], model)

    frames = [delta({"role": "assistant", "content": ""})]
    frames += [delta({"content": piece}) for piece in pieces(step.text, chunks)]
    for index, call in enumerate(step.calls):
        named = {"index": index, "id": call_id(turn, index), "type": "function"}
        frames.append(delta({"tool_calls": [named | {"function": {"name": call.name, "arguments": ""}}]}))
        text = json.dumps(call.arguments)
        frames += [
            delta({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            for piece in pieces(text, max(3, chunks))
        ]
    frames.append(delta({}, "tool_calls" if step.calls else "stop"))
    return frames


def call_id(turn: int, index: int) -> str:
    return f"call-{turn}-{index}"


def whole_message(step: Step, turn: int) -> Json:
    message: dict[str, Json] = {"role": "assistant", "content": step.text}
    if step.calls:
        message["tool_calls"] = [
            {
                "id": call_id(turn, index),
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for index, call in enumerate(step.calls)
        ]
    return message


def text_of(content: Json) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or () if isinstance(part, dict))


class Conversation(asyncio.BufferedProtocol):
    """One connection: one request after the other."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport
        self.buffer = bytearray()
        self.exchange: Exchange | None = None
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return SHELF

    def buffer_updated(self, nbytes: int) -> None:
        self.buffer += SHELF[:nbytes]
        if self.exchange is None:
            self.advance()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.exchange is not None:
            self.house.held.pop(self.exchange.seq, None)
            self.house.books.end(self.exchange, gone=True)
            self.exchange = None

    def advance(self) -> None:
        """Take the next whole request from the buffer, if there is one."""
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self.buffer[:end])
        length = LENGTH.search(head)
        size = int(length[1]) if length else 0
        if len(self.buffer) < end + 4 + size:
            return
        body = bytes(self.buffer[end + 4 : end + 4 + size])
        del self.buffer[: end + 4 + size]
        method, target, _ = head.split(b" ", 2)
        path, _, query = target.decode("latin-1").partition("?")
        if path.endswith("/chat/completions"):
            key = KEY.search(head)
            self.complete(key[1].decode("latin-1") if key else "", body, head)
        elif path == "/ledger":
            self.plain(200, self.house.counts())
        elif path == "/release" and method == b"POST":
            self.house.release(int(query.removeprefix("count=")) if query else None)
            self.plain(200, self.house.counts())
        elif path == "/plan" and method == b"POST":
            self.house.replan(json.loads(body))
            self.plain(200, self.house.counts())
        else:
            self.plain(404, {"error": {"message": f"no such path: {path}", "type": "invalid_request_error"}})

    def plain(self, status: int, value: Json, extra: str = "") -> None:
        body = compact(value)
        head = (
            f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\n{extra}\r\n"
        )
        self.transport.write(head.encode("latin-1") + body)
        if self.exchange is None:
            self.advance()

    def later(self, seconds: float, then: Callable[[], None]) -> None:
        if seconds > 0:
            self.timer = self.loop.call_later(seconds, then)
        else:
            then()

    # --- one completion ---------------------------------------------------------------------------------------

    def complete(self, key: str, body: bytes, head: bytes) -> None:
        """Answer a request with this Idempotency-Key and body; *head* is its request line and headers."""
        exchange = self.exchange = self.house.books.arrive(key, len(body))
        asked = json.loads(body)
        messages = asked["messages"]
        exchange.turn = sum(message["role"] == "assistant" for message in messages)
        exchange.stream = bool(asked.get("stream"))
        prompt = next((text_of(m.get("content")) for m in reversed(messages) if m["role"] == "user"), "")
        parts = key.rsplit("/", 3)
        attempt = int(parts[2]) if len(parts) == 4 and parts[2].isdigit() else 1
        behaviour = self.house.plan.behaviour(prompt, attempt, exchange.turn)
        if behaviour.hang:
            return
        latency = self.house.latency_ms if behaviour.latency_ms is None else behaviour.latency_ms
        self.later(latency / 1000, lambda: self.answer(exchange, behaviour, asked))

    def answer(self, exchange: Exchange, behaviour: Behaviour, asked: Json) -> None:
        refused = behaviour.times is None or self.house.books.tries[exchange.key] <= behaviour.times
        if behaviour.status != 200 and refused:
            exchange.status = behaviour.status
            extra = "" if behaviour.retry_after is None else f"retry-after: {behaviour.retry_after:g}\r\n"
            word = "rate_limit_error" if behaviour.status == 429 else "server_error"
            self.finish()
            self.plain(behaviour.status, {"error": {"message": "refused as planned", "type": word}}, extra)
            return
        model = str(asked.get("model", ""))
        step = behaviour.step(exchange.turn)
        if behaviour.size:
            step = attrs.evolve(step, text=noise(behaviour.size, exchange.key))
        if step.calls:
            newest = next((text_of(m["content"]) for m in reversed(asked["messages"]) if m["role"] == "tool"), "")
            calls = tuple(attrs.evolve(call, arguments=filled(call.arguments, newest)) for call in step.calls)
            step = attrs.evolve(step, calls=calls)
        exchange.input_tokens = exchange.size // 4
        exchange.output_tokens = len(step.text) // 4 + 8 * len(step.calls) + 1
        usage = {
            "prompt_tokens": exchange.input_tokens,
            "completion_tokens": exchange.output_tokens,
            "total_tokens": exchange.input_tokens + exchange.output_tokens,
        }
        if not exchange.stream:
            finish = "tool_calls" if step.calls else "stop"
            choice = {"index": 0, "message": whole_message(step, exchange.turn), "finish_reason": finish}
            value = {"id": "chatcmpl-peer", "object": "chat.completion", "created": 0, "model": model}
            value |= {"choices": [choice]} | ({"usage": usage} if behaviour.usage else {})
            self.hold(exchange, behaviour, lambda: self.answer_whole(exchange, value))
            return
        if step is behaviour.step(exchange.turn):
            frames = self.house.frames(behaviour, step, exchange.turn, model)
        else:
            frames = stream_frames(step, behaviour.chunks, exchange.turn, model)
        ending = [b"e\r\ndata: [DONE]\n\n\r\n"]
        if behaviour.usage and (asked.get("stream_options") or {}).get("include_usage"):
            ending.insert(0, event([], model, usage=usage))
        frames = [HEAD_STREAM % exchange.seq, *frames, *ending, LAST]
        if behaviour.hold is None and behaviour.cut is None and not behaviour.chunk_ms:
            self.transport.write(b"".join(frames))
            self.finish()
            self.advance()
        elif behaviour.hold == 0:
            self.hold(exchange, behaviour, lambda: self.drip(exchange, behaviour, frames, 0))
        else:
            self.drip(exchange, behaviour, frames, 0)

    def answer_whole(self, exchange: Exchange, value: Json) -> None:
        self.finish()
        self.plain(200, value, f"x-request-id: req-{exchange.seq}\r\n")

    def drip(self, exchange: Exchange, behaviour: Behaviour, frames: list[bytes], sent: int) -> None:
        """Send frame after frame; frame 0 is the head, frame 1 announces the role, the pieces come after."""
        while sent < len(frames):
            if behaviour.cut is not None and sent == behaviour.cut + 2:
                exchange.status = 0  # cut by plan: neither answered nor left by the client
                self.finish()
                if behaviour.abort:
                    self.transport.abort()
                else:
                    self.transport.close()
                return
            self.transport.write(frames[sent])
            sent += 1
            if behaviour.hold and sent == behaviour.hold + 2:
                rest = attrs.evolve(behaviour, hold=None)
                self.hold(exchange, behaviour, partial(self.drip, exchange, rest, frames, sent))
                return
            if behaviour.chunk_ms and sent > 1:
                self.later(behaviour.chunk_ms / 1000, partial(self.drip, exchange, behaviour, frames, sent))
                return
        self.finish()
        self.advance()

    def hold(self, exchange: Exchange, behaviour: Behaviour, then: Callable[[], None]) -> None:
        """Go on at once, or when released by the file or by `POST /release`."""
        file = Path(behaviour.hold_file) if behaviour.hold_file else None
        if behaviour.hold is None or self.house.released or (file and file.exists()):
            then()
            return
        self.house.held[exchange.seq] = then
        if file is not None:
            self.timer = self.loop.call_later(POLL_S, self.look, exchange, file)

    def look(self, exchange: Exchange, file: Path) -> None:
        then = self.house.held.get(exchange.seq)
        if then is None:
            return
        if file.exists():
            del self.house.held[exchange.seq]
            then()
        else:
            self.timer = self.loop.call_later(POLL_S, self.look, exchange, file)

    def finish(self) -> None:
        assert self.exchange is not None
        exchange, self.exchange = self.exchange, None
        self.house.books.end(exchange, gone=False)


def watch(stop: asyncio.Event) -> None:
    """End with whoever holds the other end of stdin."""
    if not os.read(0, 4096):
        stop.set()


async def serve(
    options: argparse.Namespace,
    *,
    house_of: Callable[..., House] = House,
    conversation: Callable[[Any], Conversation] = Conversation,
) -> None:
    """Serve until told to end; *conversation* makes a connection of a house that *house_of* makes."""
    plan = Plan(json.loads(options.plan.read_bytes()) if options.plan else None)
    house = house_of(books=Books(options.ledger), plan=plan, latency_ms=options.latency_ms)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if options.with_stdin:
        loop.add_reader(0, watch, stop)
    server = await loop.create_server(lambda: conversation(house), "127.0.0.1", options.port, backlog=2048)
    port = server.sockets[0].getsockname()[1]
    sys.stdout.write(json.dumps({"port": port, "pid": os.getpid()}) + "\n")
    sys.stdout.flush()
    await stop.wait()
    server.close()
    house.books.close()


def arguments(prog: str, told: str) -> argparse.ArgumentParser:
    """The flags of an endpoint's program, described by the first line of its docstring."""
    parser = argparse.ArgumentParser(prog=prog, description=told.partition("\n")[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ledger", type=Path)
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--plan", type=Path)
    parser.add_argument("--with-stdin", action="store_true", help="end when stdin is closed")
    return parser


def main() -> None:
    asyncio.run(serve(arguments("python -m tests.peers.endpoint", __doc__ or "").parse_args()))


if __name__ == "__main__":
    main()
