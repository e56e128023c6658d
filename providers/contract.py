"""Conformance kit for providers: checks a provider against the port's contract with a loopback server.

For authors of plug-ins. The kit needs no test framework: it returns a list of `Violation`, which is empty if the
provider keeps the contract. docs/adding-a-provider.md shows its use.

    violations = await check_provider(lambda base_url, key: MyProvider(base_url, key), wire)
    assert violations == []
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

import anyio
import attrs

from providers.base import Answer, Origin, Provider, Request, Responded, TextDelta, UserText
from providers.errors import ProviderError
from providers.loopback import Exchange, Server, serving

KEY = "sk-kit-0123456789-never-to-be-shown"
"""The credential of every provider under test; it must appear in no message."""
REQUEST = Request(
    origin=Origin(suite_id="contract", case_id="case", repetition=0),
    model="model-1",
    instructions="Be brief.",
    messages=(UserText(text="Say hello."),),
    max_output_tokens=100,
    key="20260101T000000Z-00c0ffee/1/1/1",
)
TIMELY_S = 10.0
"""Seconds after which a request counts as hanging."""
CLOSE_S = 1.0
"""Seconds within which a cancelled request must close its connection."""

Outcome: TypeAlias = Answer | Exception


@attrs.frozen(kw_only=True)
class Violation:
    """A broken rule of the contract, with an explanation."""

    rule: str
    what: str


def json_refusal(message: str) -> bytes:
    """The body of a refusal in the most common JSON form."""
    return json.dumps({"error": {"message": message, "type": "error"}}).encode()


@attrs.frozen(kw_only=True)
class Wire:
    """Sample responses in the provider's wire format, byte for byte."""

    content_type: str
    answer: bytes
    """A complete answer that reports no token usage."""
    text: str
    """The text of that answer."""
    begun: bytes
    """The beginning of an answer: at least one text delta, and no end."""
    document: bool = False
    """True if an answer is one document, so that no delta can be emitted before its end."""
    request: Request = REQUEST
    """The request to send, for a format that does not accept every request."""
    refusal: Callable[[str], bytes] = json_refusal
    """The body of a refusal with this message."""


OpenProvider = Callable[[str, str], Provider]
"""Opens the provider at a base URL with a key."""


@attrs.frozen(kw_only=True)
class _Bench:
    """The provider under test and its sample responses."""

    open_provider: OpenProvider
    wire: Wire
    timely_s: float

    @asynccontextmanager
    async def opened(self, url: str, key: str = KEY) -> AsyncIterator[Provider]:
        provider = self.open_provider(url, key)
        try:
            yield provider
        finally:
            await provider.aclose()

    async def outcome(self, provider: Provider, heard: _Heard) -> Outcome:
        return await _outcome(provider, self.wire.request, heard, self.timely_s)


async def check_provider(open_provider: OpenProvider, wire: Wire, *, timely_s: float = TIMELY_S) -> list[Violation]:
    """Check every rule of the contract for a provider of an HTTP endpoint.

    Sends about a dozen requests, which takes less than a second, plus *timely_s* seconds for each one that hangs.
    """
    bench = _Bench(open_provider=open_provider, wire=wire, timely_s=timely_s)
    found: list[Violation] = []
    for check in (_whole, _refused, _cut, _nonsense, _unreachable, _cancelled, _identified):
        found += await check(bench)
    return found


async def check_answer(provider: Provider, request: Request, *, timely_s: float = TIMELY_S) -> list[Violation]:
    """Check the rules that one answer can prove, for a provider of any kind, with or without a server."""
    heard = _Heard()
    outcome = await _outcome(provider, request, heard, timely_s)
    if not isinstance(outcome, Answer):
        return [Violation(rule="answers", what=f"expected an answer, got {_shown(outcome)}")]
    found = _order(heard)
    if (text := heard.text()) != outcome.text:
        found.append(Violation(rule="whole-answer", what=f"the deltas say {text!r}, the answer {outcome.text!r}"))
    return found


# --- rules ------------------------------------------------------------------------------------------------------


async def _whole(bench: _Bench) -> list[Violation]:
    """Status before body, one complete answer, an unchanged Idempotency-Key, no invented usage."""
    heard = _Heard()
    told_first: list[bool] = []

    async def behave(exchange: Exchange) -> None:
        await exchange.head(200, bench.wire.content_type)
        with anyio.move_on_after(bench.timely_s / 4):
            await heard.responded.wait()
        told_first.append(heard.responded.is_set())
        await exchange.send(bench.wire.answer)

    async with serving(behave) as server, bench.opened(server.url) as provider:
        size = provider.size(bench.wire.request)
        outcome = await bench.outcome(provider, heard)
    if not isinstance(outcome, Answer):
        return [Violation(rule="answers", what=f"a whole answer was not read: {_shown(outcome)}")]
    found = _order(heard)
    if told_first and not told_first[0]:
        found.append(Violation(rule="status-first", what="the status was not emitted before the body arrived"))
    if not outcome.text == heard.text() == bench.wire.text:
        what = f"sent {bench.wire.text!r}, emitted in deltas {heard.text()!r}, returned {outcome.text!r}"
        found.append(Violation(rule="whole-answer", what=what))
    if outcome.usage is not None and (made_up := outcome.usage.reported()):
        found.append(Violation(rule="unreported-is-none", what=f"usage {made_up} was not reported"))
    keys = [seen.headers.get("idempotency-key") for seen in server.seen]
    if keys != [bench.wire.request.key]:
        found.append(Violation(rule="idempotency-key", what=f"the request's key was sent as {keys}"))
    sent = max((len(seen.body) for seen in server.seen), default=0)
    if size < sent:
        found.append(Violation(rule="size", what=f"size() said {size} bytes, {sent} were sent"))
    return found + _asked_once(server, "a whole answer")


async def _refused(bench: _Bench) -> list[Violation]:
    """A refusal is a `ProviderError` with the right `retryable`, and never shows the key."""
    found: list[Violation] = []
    for status, retryable in ((400, False), (401, False), (429, True), (500, True), (503, True)):
        heard = _Heard()
        case = f"status {status}"

        async def behave(exchange: Exchange, status: int = status) -> None:
            await exchange.head(status, "application/json", *(["retry-after: 2"] if status == 429 else []))
            await exchange.send(bench.wire.refusal(f"refused, and your key is {KEY}"))

        async with serving(behave) as server, bench.opened(server.url) as provider:
            outcome = await bench.outcome(provider, heard)
        found += _order(heard) + _asked_once(server, case) + _failed(outcome, case)
        if not isinstance(outcome, ProviderError):
            continue
        if outcome.retryable != retryable:
            found.append(Violation(rule="retryable", what=f"{case}: retryable is {outcome.retryable}"))
        if outcome.status != status:
            found.append(Violation(rule="status", what=f"{case}: the error says {outcome.status}"))
        if status == 429 and outcome.retry_after_s != 2:
            found.append(
                Violation(rule="retry-after", what=f"asked to wait 2 s, the error says {outcome.retry_after_s}")
            )
    return found


async def _cut(bench: _Bench) -> list[Violation]:
    """A broken stream is a retryable error, never half an answer."""

    async def behave(exchange: Exchange) -> None:
        await exchange.head(200, bench.wire.content_type)
        await exchange.send(bench.wire.begun)

    case = "a stream that breaks off"
    async with serving(behave) as server, bench.opened(server.url) as provider:
        outcome = await bench.outcome(provider, _Heard())
    found = _failed(outcome, case) + _asked_once(server, case)
    if isinstance(outcome, ProviderError) and not outcome.retryable:
        found.append(Violation(rule="retryable", what=f"{case}: retryable is False"))
    return found


async def _nonsense(bench: _Bench) -> list[Violation]:
    """An unreadable body and an empty one are errors."""
    found: list[Violation] = []
    for body in (b"\x00\xff<html>\r\n\r\n{[", b""):

        async def behave(exchange: Exchange, body: bytes = body) -> None:
            await exchange.head(200, bench.wire.content_type)
            await exchange.send(body)

        case = f"the body {body!r}"
        async with serving(behave) as server, bench.opened(server.url) as provider:
            outcome = await bench.outcome(provider, _Heard())
        found += _failed(outcome, case) + _asked_once(server, case)
    return found


async def _unreachable(bench: _Bench) -> list[Violation]:
    """A refused connection is a retryable error."""
    async with serving(Exchange.ignore) as server:
        url = server.url
    async with bench.opened(url) as provider:
        outcome = await bench.outcome(provider, _Heard())
    found = _failed(outcome, "no connection")
    if isinstance(outcome, ProviderError) and not outcome.retryable:
        found.append(Violation(rule="retryable", what="no connection: retryable is False"))
    return found


async def _cancelled(bench: _Bench) -> list[Violation]:
    """Cancellation in mid-stream closes the connection at once."""
    closed = anyio.Event()

    async def behave(exchange: Exchange) -> None:
        await exchange.head(200, bench.wire.content_type)
        await exchange.send(bench.wire.begun)
        await exchange.gone()
        closed.set()

    heard = _Heard()
    ended: list[Outcome] = []
    async with serving(behave) as server, bench.opened(server.url) as provider:
        async with anyio.create_task_group() as group:

            async def ask() -> None:
                ended.append(await bench.outcome(provider, heard))
                heard.delta.set()
                heard.responded.set()

            group.start_soon(ask)
            await (heard.responded if bench.wire.document else heard.delta).wait()
            group.cancel_scope.cancel()
        with anyio.move_on_after(CLOSE_S):
            await closed.wait()
    if ended:
        what = f"an answer that had only begun ended with {_shown(ended[0])}"
        return [Violation(rule="cancellation" if bench.wire.document else "deltas-as-they-come", what=what)]
    if not closed.is_set():
        return [Violation(rule="cancellation", what=f"the connection was not closed within {CLOSE_S:g} s")]
    return []


async def _identified(bench: _Bench) -> list[Violation]:
    """Name, account and representation are not empty and hide the key; two keys are two accounts."""
    found: list[Violation] = []
    url = "http://127.0.0.1:9/v1"
    async with bench.opened(url) as provider:
        for what, value in (("name", provider.name), ("account", provider.account), ("repr", repr(provider))):
            if not value:
                found.append(Violation(rule="identity", what=f"{what} is empty"))
            if KEY in value:
                found.append(Violation(rule="credential", what=f"{what} shows the key"))
        longer = attrs.evolve(bench.wire.request, messages=(UserText(text="Say hello." * 100),))
        if provider.size(longer) <= provider.size(bench.wire.request):
            found.append(Violation(rule="size", what="a longer request is not larger"))
        async with bench.opened(url, f"{KEY}-other") as other:
            if other.account == provider.account:
                found.append(Violation(rule="identity", what="two keys share one account"))
    return found


def _order(heard: _Heard) -> list[Violation]:
    """Exactly one `Responded`, as the first event."""
    responded = [place for place, item in enumerate(heard.items) if isinstance(item, Responded)]
    if responded == [0]:
        return []
    return [
        Violation(rule="status-first", what=f"Responded was emitted {len(responded)} times, at positions {responded}")
    ]


def _asked_once(server: Server, case: str) -> list[Violation]:
    if len(server.seen) == 1:
        return []
    return [Violation(rule="asks-once", what=f"{case}: {len(server.seen)} requests were sent")]


def _failed(outcome: Outcome, case: str) -> list[Violation]:
    """The outcome is a `ProviderError`, and neither it nor its causes show the key."""
    if not isinstance(outcome, ProviderError):
        return [Violation(rule="provider-error-only", what=f"{case}: ended with {_shown(outcome)}")]
    link: BaseException | None = outcome
    while link is not None:
        if KEY in str(link) or KEY in repr(link):
            return [Violation(rule="credential", what=f"{case}: {type(link).__name__} shows the key")]
        link = link.__cause__ or link.__context__
    return []


def _shown(outcome: Outcome) -> str:
    return "an answer" if isinstance(outcome, Answer) else f"{type(outcome).__name__}: {outcome}".replace(KEY, "***")


# --- requests ----------------------------------------------------------------------------------------------------


class _Heard:
    """The emitted events in order."""

    def __init__(self) -> None:
        self.items: list[object] = []
        self.responded = anyio.Event()
        self.delta = anyio.Event()

    def __call__(self, item: object) -> None:
        self.items.append(item)
        (self.responded if isinstance(item, Responded) else self.delta).set()

    def text(self) -> str:
        return "".join(item.text for item in self.items if isinstance(item, TextDelta))


async def _outcome(provider: Provider, request: Request, heard: _Heard, timely_s: float) -> Outcome:
    """Send the request and return its answer or the exception it raised."""
    try:
        with anyio.fail_after(timely_s):
            return await provider.answer(request, heard)
    except Exception as error:  # noqa: BLE001 - the boundary to third-party code, which may raise anything
        return error
