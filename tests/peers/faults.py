"""A faulty OpenAI-compatible endpoint: every fault of `data/faults.json`, on a real socket.

    python -m tests.peers.faults --port 0 [--fault NAME] [--ledger FILE] [--with-stdin]

The counting endpoint (`endpoint.py`), with one more word for prompts: `[[fault=NAME]]`. With `--fault` (a name, or the
number of a row, whose first it then is) every request meets that one. Without either, requests are answered as the
counting endpoint answers them. `random` meets each request with any of the faults that leave an account usable, or
with none, chosen by its Idempotency-Key and try.

`refused` is not here: nobody listens on a closed port.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import socket
import struct
import time  # noqa: TID251 - a witness has a clock of its own
from collections.abc import Callable, Mapping
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from tests.peers.behaviour import noise
from tests.peers.endpoint import LAST, Conversation, Exchange, House, Json, arguments, compact, serve, text_of

DATA = Path(__file__).parent / "data" / "faults.json"
WORD = re.compile(r"\[\[fault=([\w-]+)\]\]")
TEXT = ("It is ", "done ", "as ", "asked.")
INPUT, OUTPUT = 100, 20
"""Tokens that an honest answer reports."""
DRIP_S = 0.3
CALM = 0.4
"""The share of requests that `random` answers."""
THROTTLED = 0.01
"""The share it throttles; with more, nobody would be left to be many at once."""
HELD_S = 0.3
"""How long `random` keeps a request, so that many are there at once."""
DONE = b"data: [DONE]\n\n"
READ = ("read_file", '{"path": "note.txt"}')
ONCE = ("bash", '{"command": "echo ran >> ran.txt"}')


def data(document: Json, *, end: bytes = b"\n\n") -> bytes:
    """One server-sent event."""
    return b"data: " + compact(document) + end


def framed(piece: bytes) -> bytes:
    """A chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def usage(prompt: Json = INPUT, output: Json = OUTPUT, **more: Json) -> Json:
    return {"prompt_tokens": prompt, "completion_tokens": output, **more}


def calls(*wanted: tuple[str, str], ids: tuple[str, ...] = ()) -> Json:
    """Whole tool calls as a delta."""
    names = ids or tuple(f"call-{number}" for number in range(len(wanted)))
    return {
        "tool_calls": [
            {"index": index, "id": name, "type": "function", "function": {"name": tool, "arguments": given}}
            for index, (name, (tool, given)) in enumerate(zip(names, wanted, strict=True))
        ]
    }


@attrs.define(kw_only=True)
class Meeting:
    """One request that meets a fault: what was asked, and the ways to answer it."""

    talk: Faulty
    exchange: Exchange
    asked: Json
    tries: int
    """How often this Idempotency-Key has been seen, this time included."""

    @property
    def wants_usage(self) -> bool:
        return bool((self.asked.get("stream_options") or {}).get("include_usage"))

    @property
    def name(self) -> str:
        """The request's own, by which the command's record of it is found."""
        return f"req-{self.exchange.seq}"

    def write(self, piece: bytes) -> None:
        self.talk.transport.write(piece)

    # --- ends ---------------------------------------------------------------------------------------------------

    def over(self, *, close: bool = False) -> None:
        """The request has been answered, as far as this server is concerned."""
        self.talk.finish()
        if close:
            self.talk.transport.close()
        else:
            self.talk.advance()

    def reset(self) -> None:
        """Close with RST, once what was written has had the time to leave."""
        self.exchange.status = 0
        connection = self.talk.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.talk.finish()
        self.talk.transport.abort()

    def later(self, then: Callable[[], None], seconds: float = 0.05) -> None:
        self.talk.later(seconds, then)

    def cut(self, *, status: int = 0) -> None:
        """Close cleanly, wherever the body is."""
        self.exchange.status = status
        self.over(close=True)

    # --- refusals -----------------------------------------------------------------------------------------------

    def status(self, status: int, body: Json | bytes | str, **headers: str) -> None:
        """A whole answer with its length; *body* is JSON unless it is bytes or text."""
        self.exchange.status = status
        sort = "application/json"
        if isinstance(body, str):
            sort = "text/html" if body.startswith("<") else "text/plain"
            content = body.encode()
        else:
            content = body if isinstance(body, bytes) else compact(body)
        given = {"content-type": sort, "content-length": str(len(content)), "x-request-id": self.name}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        lines = [f"HTTP/1.1 {status} Status", *(f"{name}: {value}" for name, value in given.items()), "", ""]
        self.write("\r\n".join(lines).encode("latin-1") + content)
        self.over()

    def refuse(self, status: int, message: str, code: str = "", sort: str = "error", **headers: str) -> None:
        self.status(status, {"error": {"message": message, "type": sort, "code": code or None}}, **headers)

    def throttle(self, **headers: str) -> None:
        self.refuse(429, "slow down", "rate_limit_exceeded", **headers)

    # --- answers ------------------------------------------------------------------------------------------------

    def head(self, sort: str = "text/event-stream", *, sized: bool = True) -> None:
        ending = "transfer-encoding: chunked" if sized else "connection: close"
        named = f"x-request-id: {self.name}"
        self.write(f"HTTP/1.1 200 OK\r\ncontent-type: {sort}\r\n{named}\r\n{ending}\r\n\r\n".encode("ascii"))

    def chunk(self, delta: Json = None, finish: str | None = None, **more: Json) -> Json:
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
        named = {"id": "chatcmpl-peer", "object": "chat.completion.chunk", "created": 0, "model": self.asked["model"]}
        return named | {"choices": choices} | more

    def events(self, *documents: Json) -> None:
        for document in documents:
            self.write(framed(data(document)))

    def said(self, *texts: str) -> list[Json]:
        return [self.chunk({"content": text}) for text in texts]

    def counted(self, prompt: int = INPUT, output: int = OUTPUT) -> Json:
        """Honest usage, which goes into the books too."""
        self.exchange.input_tokens, self.exchange.output_tokens = prompt, output
        return usage(prompt, output)

    def stream(self, *documents: Json, count: bool = True) -> None:
        """A whole stream: these, honest usage if it was asked for and is to be told, and the end."""
        self.head()
        self.events(*documents)
        if count and self.wants_usage:
            self.events(self.chunk(usage=self.counted()))
        self.write(framed(DONE) + LAST)
        self.over()

    def answer(self, *, finish: str = "stop", count: bool = True) -> None:
        self.stream(*self.said(*TEXT), self.chunk({}, finish), count=count)

    def call(self, *wanted: tuple[str, str], ids: tuple[str, ...] = ()) -> None:
        """Tool calls on the first turn, an answer on any later one."""
        if self.exchange.turn:
            self.answer()
        else:
            self.stream(self.chunk(calls(*wanted, ids=ids)), self.chunk({}, "tool_calls"))

    def report(self, told: Json) -> None:
        """An answer with *told* as its usage."""
        self.stream(*self.said(*TEXT), self.chunk({}, "stop"), self.chunk(usage=told), count=False)


# --- the faults, in the order of the catalogue --------------------------------------------------------------------

Fault = Callable[[Meeting], None]


def silent(_meeting: Meeting) -> None:
    """Nothing, for ever."""


def stall(m: Meeting) -> None:
    m.head()
    m.events(*m.said(*TEXT[:2]))


def drip(m: Meeting) -> None:
    m.head()
    _drop(m)


def _drop(m: Meeting) -> None:
    m.events(*m.said("."))
    m.later(partial(_drop, m), DRIP_S)


def reset(m: Meeting) -> None:
    m.head()
    m.events(*m.said(*TEXT[:2]), m.chunk(calls(("read_file", '{"path": "no'))))
    m.later(m.reset)


def half_event(m: Meeting) -> None:
    m.head()
    m.events(*m.said(*TEXT[:2]))
    m.write(framed(data(m.chunk({"content": "done"}))[:40]))
    m.cut()


def no_end(m: Meeting) -> None:
    m.head()
    m.events(*m.said(*TEXT))
    m.write(LAST)
    m.exchange.status = 0
    m.over()


def no_done(m: Meeting) -> None:
    m.head(sized=False)
    for document in (*m.said(*TEXT), m.chunk({}, "stop", usage=m.counted())):
        m.write(data(document))
    m.cut(status=200)


def once(then: Fault) -> Fault:
    """*then* at the first try of a request, an answer at every later one."""
    return lambda m: then(m) if m.tries == 1 else m.answer()


def wait_date(m: Meeting, ahead_s: float = 2.0, *, fast_s: float = 3600.0) -> None:
    now = time.time() + fast_s
    m.throttle(date=formatdate(now, usegmt=True), retry_after=formatdate(now + ahead_s, usegmt=True))


def refused_key(m: Meeting, status: int) -> None:
    m.refuse(status, f"you may not use this with {m.talk.authorization}", "invalid_api_key" if status == 401 else "")


def context_later(m: Meeting) -> None:
    if m.exchange.turn:
        too_long(m)
    else:
        m.call(READ)


def too_long(m: Meeting) -> None:
    m.refuse(400, "This model's maximum context length is 8192 tokens.", "context_length_exceeded")


def no_stream_options(m: Meeting) -> None:
    if "stream_options" in m.asked:
        m.refuse(400, "Unsupported parameter: stream_options", sort="invalid_request_error")
    else:
        m.answer()


def no_max_tokens(m: Meeting) -> None:
    if "max_tokens" in m.asked:
        said = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
        m.refuse(400, said, "unsupported_parameter", sort="invalid_request_error")
    else:
        m.answer()


def twice_500(m: Meeting) -> None:
    if m.tries <= 2:
        m.refuse(500, "something broke", sort="server_error")
    else:
        m.answer()


def html_502(m: Meeting) -> None:
    page = "<html><head><title>502</title><script>alert(1)</script></head><body><h1>Bad Gateway</h1>"
    m.status(502, page + "<p>nothing to see</p>" * 300 + "</body></html>")


def overloaded_mid(m: Meeting) -> None:
    m.head()
    m.events(*m.said(*TEXT[:1]), m.chunk(usage=m.counted(118, 1)))
    m.events({"error": {"type": "overloaded_error", "message": "Overloaded"}})
    m.write(framed(DONE) + LAST)
    m.exchange.status = 0
    m.over()


def error_chunk(m: Meeting) -> None:
    m.exchange.status = 0
    broken = {"error": {"message": "the upstream broke", "type": "server_error", "code": 502}}
    m.stream(*m.said(*TEXT[:2]), broken, count=False)


def whole(m: Meeting) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "".join(TEXT)}, "finish_reason": "stop"}
    m.status(200, {"object": "chat.completion", "model": m.asked["model"], "choices": [choice], "usage": m.counted()})


def mislabelled(m: Meeting) -> None:
    m.head("application/json")
    m.events(*m.said(*TEXT), m.chunk({}, "stop"), m.chunk(usage=m.counted()))
    m.write(framed(DONE) + LAST)
    m.over()


def cut_arguments(m: Meeting) -> None:
    m.stream(m.chunk(calls(("read_file", '{"path": "no'))), m.chunk({}, "length"))


def other_model(m: Meeting) -> None:
    m.asked["model"] = "other-model"
    m.answer()


def refusal(m: Meeting) -> None:
    m.stream(m.chunk({"refusal": "I will not do that."}), m.chunk({}, "stop"))


def usage_repeated(m: Meeting) -> None:
    told = [m.chunk({"content": text}, usage=usage(INPUT, 5 * (n + 1))) for n, text in enumerate(TEXT)]
    m.counted()
    m.stream(*told, m.chunk({}, "stop"), count=False)


def bad_utf8(m: Meeting) -> None:
    m.head()
    piece = data(m.chunk({"content": "It is @@ done"})).replace(b"@@", b"\xff\xfe\xe2\x82")
    m.write(framed(piece))
    m.events(m.chunk({}, "stop"), m.chunk(usage=m.counted()))
    m.write(framed(DONE) + LAST)
    m.over()


def odd_bytes(m: Meeting, *, end: bytes = b"\n\n", width: int = 1 << 20) -> None:
    """The honest answer with other line ends, in pieces of *width* bytes."""
    documents = (*m.said(*TEXT), m.chunk({}, "stop"), m.chunk(usage=m.counted()))
    body = b"".join(data(document, end=end) for document in documents) + b"data: [DONE]" + end
    m.head()
    for start in range(0, len(body), width):
        m.write(framed(body[start : start + width]))
    m.write(LAST)
    m.over()


def large(m: Meeting, size: int, pieces: int) -> None:
    text = noise(size // pieces, m.exchange.key)
    m.stream(*m.said(*[text] * pieces), m.chunk({}, "stop"))


def redirect(m: Meeting, status: int) -> None:
    port = m.talk.transport.get_extra_info("sockname")[1]
    m.status(status, b"", location=f"http://localhost:{port}/v1/chat/completions")


def after_tool(m: Meeting) -> None:
    if m.exchange.turn and m.tries == 1:
        m.refuse(500, "something broke", sort="server_error")
    else:
        m.call(ONCE)


def at_random(m: Meeting) -> None:
    """Any of the others, or none."""
    rng = random.Random(f"{m.exchange.key.partition('/')[2]} {m.tries}")  # not by the sweep's name: the same every time
    at = rng.random()
    name = None if at < CALM else rng.choice(THROTTLING if at > 1 - THROTTLED else ANY)
    m.later(lambda: m.answer() if name is None else FAULTS[name](m), HELD_S)


FAULTS: Mapping[str, Fault] = {
    "silent": silent,
    "headers-only": Meeting.head,
    "stall": stall,
    "drip": drip,
    "reset": reset,
    "half-event": half_event,
    "no-end": no_end,
    "no-done": no_done,
    "wait-seconds": once(lambda m: m.throttle(retry_after="2")),
    "wait-ms": once(lambda m: m.throttle(retry_after_ms="1500", retry_after="2")),
    "wait-date": once(wait_date),
    "wait-past": once(partial(wait_date, ahead_s=-30.0, fast_s=0.0)),
    "wait-long": lambda m: m.throttle(retry_after="3600"),
    "quota-429": lambda m: m.refuse(429, "You exceeded your current quota.", "insufficient_quota"),
    "quota-402": lambda m: m.refuse(402, "Payment required."),
    "quota-400": lambda m: m.refuse(400, "Your credit balance is too low.", sort="invalid_request_error"),
    "key-401": partial(refused_key, status=401),
    "key-403": partial(refused_key, status=403),
    "no-model": lambda m: m.refuse(404, "The model `peer-1` does not exist.", "model_not_found"),
    "context-first": too_long,
    "context-later": context_later,
    "no-stream-options": no_stream_options,
    "no-max-tokens": no_max_tokens,
    "twice-500": twice_500,
    "html-502": html_502,
    "empty-503": lambda m: m.status(503, b""),
    "text-504": lambda m: m.status(504, "upstream request timeout"),
    "overloaded-529": once(lambda m: m.refuse(529, "Overloaded", sort="overloaded_error")),
    "overloaded-mid": once(overloaded_mid),
    "error-chunk": error_chunk,
    "whole": whole,
    "mislabelled": mislabelled,
    "bad-arguments": lambda m: m.call(("read_file", '{"path": "no')),
    "cut-arguments": cut_arguments,
    "unknown-tool": lambda m: m.call(("make_coffee", "{}")),
    "duplicate-ids": lambda m: m.call(READ, READ, ids=("same", "same")),
    "fifty-calls": lambda m: m.call(*[READ] * 50),
    "many-calls": lambda m: m.call(*[READ] * 65),
    "empty-length": lambda m: m.stream(m.chunk({}, "length")),
    "filtered": lambda m: m.answer(finish="content_filter"),
    "refusal": refusal,
    "usage-missing": lambda m: m.answer(count=False),
    "usage-null-details": lambda m: m.report(m.counted() | dict.fromkeys(("prompt_tokens_details", "total_tokens"))),
    "usage-repeated": usage_repeated,
    "usage-own-chunk": Meeting.answer,
    "usage-negative": lambda m: m.report(usage(-5)),
    "usage-text": lambda m: m.report(usage("a hundred")),
    "usage-huge": lambda m: m.report(usage(10**12)),
    "usage-cached": lambda m: m.report(m.counted() | {"prompt_tokens_details": {"cached_tokens": INPUT + 1}}),
    "bad-utf8": bad_utf8,
    "byte-by-byte": partial(odd_bytes, width=1),
    "crlf": partial(odd_bytes, end=b"\r\n\r\n"),
    "long-line": partial(large, size=1 << 20, pieces=1),
    "long-body": partial(large, size=10 << 20, pieces=100),
    "other-model": other_model,
    "redirect-301": partial(redirect, status=301),
    "redirect-307": partial(redirect, status=307),
    "endless": drip,
    "random": at_random,
    "after-tool": after_tool,
}

THROTTLING = ("wait-past", "overloaded-529", "overloaded-mid")
UNUSABLE = (
    "quota",
    "key",
    "no-stream",
    "no-max",
    "wait",
    "overloaded",
    "drip",
    "endless",
    "random",
    "after-tool",
    "long",
)
"""Beginnings of names that `random` does not choose as often as the others: they throttle, end an account, change what
it is sent, or take too long."""
ANY = tuple(name for name in FAULTS if not name.startswith(UNUSABLE))


class FaultyHouse(House):
    """The counting endpoint's house, and the fault that everybody meets."""

    always: str | None = None


class Faulty(Conversation):
    """A connection whose requests meet what their prompts name."""

    house: FaultyHouse
    authorization = ""

    def complete(self, key: str, body: bytes, head: bytes) -> None:
        asked = json.loads(body)
        prompt = next((text_of(m.get("content")) for m in asked["messages"] if m["role"] == "user"), "")
        word = WORD.search(prompt)
        name = self.house.always or (word[1] if word else None)
        if name is None:
            super().complete(key, body, head)
            return
        given = re.search(rb"\r\nauthorization: *([^\r]*)", head, re.IGNORECASE)
        self.authorization = given[1].decode("latin-1").removeprefix("Bearer ") if given else "no key"
        exchange = self.exchange = self.house.books.arrive(key, len(body))
        exchange.turn = sum(message["role"] == "assistant" for message in asked["messages"])
        exchange.stream = bool(asked.get("stream"))
        tries = self.house.books.tries[key]
        FAULTS[name](Meeting(talk=self, exchange=exchange, asked=asked, tries=tries))


def named(fault: str) -> str:
    """A fault by its name, or by its row's number.

    Raises:
        argparse.ArgumentTypeError: there is no such fault.
    """
    first: dict[str, str] = {str(row["row"]): row["cases"][0]["fault"] for row in json.loads(DATA.read_bytes())["rows"]}
    name = first.get(fault, fault)
    if name not in FAULTS:
        raise argparse.ArgumentTypeError(f"no fault {fault!r}; there are {', '.join(FAULTS)}")
    return name


def main() -> None:
    parser = arguments("python -m tests.peers.faults", __doc__ or "")
    parser.add_argument("--fault", type=named)
    options = parser.parse_args()

    def house(**parts: Any) -> House:
        made = FaultyHouse(**parts)
        made.always = options.fault
        return made

    asyncio.run(serve(options, house_of=house, conversation=Faulty))


if __name__ == "__main__":
    main()
