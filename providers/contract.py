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
from providers.loopback import Exchange, LoopbackServer, serve_loopback

TEST_CREDENTIAL = "sk-kit-0123456789-never-to-be-shown"
"""The credential of every provider under test; it must appear in no message."""
SAMPLE_REQUEST = Request(
    origin=Origin(suite_id="contract", case_id="case", repetition=0),
    model="model-1",
    instructions="Be brief.",
    messages=(UserText(text="Say hello."),),
    max_output_tokens=100,
    key="20260101T000000Z-00c0ffee/1/1/1",
)
HANG_TIMEOUT_S = 10.0
"""Seconds after which a request counts as hanging."""
CLOSE_TIMEOUT_S = 1.0
"""Seconds within which a cancelled request must close its connection."""

AnswerOrError: TypeAlias = Answer | Exception


@attrs.frozen(kw_only=True)
class Violation:
    """A broken rule of the contract, with an explanation."""

    rule: str
    explanation: str


def build_json_refusal(message: str) -> bytes:
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
    request: Request = SAMPLE_REQUEST
    """The request to send, for a format that does not accept every request."""
    refusal: Callable[[str], bytes] = build_json_refusal
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
    async def open_at(self, url: str, key: str = TEST_CREDENTIAL) -> AsyncIterator[Provider]:
        provider = self.open_provider(url, key)
        try:
            yield provider
        finally:
            await provider.aclose()

    async def ask_provider(self, provider: Provider, heard: _EmittedLog) -> AnswerOrError:
        return await _capture_outcome(provider, self.wire.request, heard, self.timely_s)


async def check_provider(
    open_provider: OpenProvider, wire: Wire, *, timely_s: float = HANG_TIMEOUT_S
) -> list[Violation]:
    """Check every rule of the contract for a provider of an HTTP endpoint.

    Sends about a dozen requests, which takes less than a second, plus *timely_s* seconds for each one that hangs.
    """
    bench = _Bench(open_provider=open_provider, wire=wire, timely_s=timely_s)
    violations: list[Violation] = []
    for check in (
        _check_whole_answer,
        _check_refusals,
        _check_broken_stream,
        _check_unreadable_bodies,
        _check_unreachable_endpoint,
        _check_cancellation,
        _check_identity,
    ):
        violations += await check(bench)
    return violations


async def check_answer(provider: Provider, request: Request, *, timely_s: float = HANG_TIMEOUT_S) -> list[Violation]:
    """Check the rules that one answer can prove, for a provider of any kind, with or without a server."""
    heard = _EmittedLog()
    outcome = await _capture_outcome(provider, request, heard, timely_s)
    if not isinstance(outcome, Answer):
        return [Violation(rule="answers", explanation=f"expected an answer, got {_describe_outcome(outcome)}")]
    violations = _check_event_order(heard)
    if (text := heard.join_text()) != outcome.text:
        violations.append(
            Violation(rule="whole-answer", explanation=f"the deltas say {text!r}, the answer {outcome.text!r}")
        )
    return violations


# --- rules ------------------------------------------------------------------------------------------------------


async def _check_whole_answer(bench: _Bench) -> list[Violation]:
    """Status before body, one complete answer, an unchanged Idempotency-Key, no invented usage."""
    heard = _EmittedLog()
    told_first: list[bool] = []

    async def send_answer(exchange: Exchange) -> None:
        await exchange.send_head(200, bench.wire.content_type)
        with anyio.move_on_after(bench.timely_s / 4):
            await heard.responded.wait()
        told_first.append(heard.responded.is_set())
        await exchange.send_body(bench.wire.answer)

    async with serve_loopback(send_answer) as server, bench.open_at(server.url) as provider:
        size = provider.size(bench.wire.request)
        outcome = await bench.ask_provider(provider, heard)
    if not isinstance(outcome, Answer):
        return [Violation(rule="answers", explanation=f"a whole answer was not read: {_describe_outcome(outcome)}")]
    violations = _check_event_order(heard)
    if told_first and not told_first[0]:
        violations.append(
            Violation(rule="status-first", explanation="the status was not emitted before the body arrived")
        )
    if not outcome.text == heard.join_text() == bench.wire.text:
        explanation = f"sent {bench.wire.text!r}, emitted in deltas {heard.join_text()!r}, returned {outcome.text!r}"
        violations.append(Violation(rule="whole-answer", explanation=explanation))
    if outcome.usage is not None and (made_up := outcome.usage.to_json()):
        violations.append(Violation(rule="unreported-is-none", explanation=f"usage {made_up} was not reported"))
    keys = [seen.headers.get("idempotency-key") for seen in server.seen]
    if keys != [bench.wire.request.key]:
        violations.append(Violation(rule="idempotency-key", explanation=f"the request's key was sent as {keys}"))
    sent = max((len(seen.body) for seen in server.seen), default=0)
    if size < sent:
        violations.append(Violation(rule="size", explanation=f"size() said {size} bytes, {sent} were sent"))
    return violations + _check_single_request(server, "a whole answer")


async def _check_refusals(bench: _Bench) -> list[Violation]:
    """A refusal is a `ProviderError` with the right `retryable`, and never shows the key."""
    violations: list[Violation] = []
    for status, retryable in ((400, False), (401, False), (429, True), (500, True), (503, True)):
        heard = _EmittedLog()
        case = f"status {status}"

        async def send_refusal(exchange: Exchange, status: int = status) -> None:
            await exchange.send_head(status, "application/json", *(["retry-after: 2"] if status == 429 else []))
            await exchange.send_body(bench.wire.refusal(f"refused, and your key is {TEST_CREDENTIAL}"))

        async with serve_loopback(send_refusal) as server, bench.open_at(server.url) as provider:
            outcome = await bench.ask_provider(provider, heard)
        violations += (
            _check_event_order(heard) + _check_single_request(server, case) + _check_provider_error(outcome, case)
        )
        if not isinstance(outcome, ProviderError):
            continue
        if outcome.retryable != retryable:
            violations.append(Violation(rule="retryable", explanation=f"{case}: retryable is {outcome.retryable}"))
        if outcome.status != status:
            violations.append(Violation(rule="status", explanation=f"{case}: the error says {outcome.status}"))
        if status == 429 and outcome.retry_after_s != 2:
            violations.append(
                Violation(rule="retry-after", explanation=f"asked to wait 2 s, the error says {outcome.retry_after_s}")
            )
    return violations


async def _check_broken_stream(bench: _Bench) -> list[Violation]:
    """A broken stream is a retryable error, never half an answer."""

    async def send_beginning(exchange: Exchange) -> None:
        await exchange.send_head(200, bench.wire.content_type)
        await exchange.send_body(bench.wire.begun)

    case = "a stream that breaks off"
    async with serve_loopback(send_beginning) as server, bench.open_at(server.url) as provider:
        outcome = await bench.ask_provider(provider, _EmittedLog())
    violations = _check_provider_error(outcome, case) + _check_single_request(server, case)
    if isinstance(outcome, ProviderError) and not outcome.retryable:
        violations.append(Violation(rule="retryable", explanation=f"{case}: retryable is False"))
    return violations


async def _check_unreadable_bodies(bench: _Bench) -> list[Violation]:
    """An unreadable body and an empty one are errors."""
    violations: list[Violation] = []
    for body in (b"\x00\xff<html>\r\n\r\n{[", b""):

        async def send_body(exchange: Exchange, body: bytes = body) -> None:
            await exchange.send_head(200, bench.wire.content_type)
            await exchange.send_body(body)

        case = f"the body {body!r}"
        async with serve_loopback(send_body) as server, bench.open_at(server.url) as provider:
            outcome = await bench.ask_provider(provider, _EmittedLog())
        violations += _check_provider_error(outcome, case) + _check_single_request(server, case)
    return violations


async def _check_unreachable_endpoint(bench: _Bench) -> list[Violation]:
    """A refused connection is a retryable error."""
    async with serve_loopback(Exchange.send_nothing) as server:
        url = server.url
    async with bench.open_at(url) as provider:
        outcome = await bench.ask_provider(provider, _EmittedLog())
    violations = _check_provider_error(outcome, "no connection")
    if isinstance(outcome, ProviderError) and not outcome.retryable:
        violations.append(Violation(rule="retryable", explanation="no connection: retryable is False"))
    return violations


async def _check_cancellation(bench: _Bench) -> list[Violation]:
    """Cancellation in mid-stream closes the connection at once."""
    closed = anyio.Event()

    async def send_and_wait(exchange: Exchange) -> None:
        await exchange.send_head(200, bench.wire.content_type)
        await exchange.send_body(bench.wire.begun)
        await exchange.wait_until_closed()
        closed.set()

    heard = _EmittedLog()
    ended: list[AnswerOrError] = []
    async with serve_loopback(send_and_wait) as server, bench.open_at(server.url) as provider:
        async with anyio.create_task_group() as group:

            async def ask_once() -> None:
                ended.append(await bench.ask_provider(provider, heard))
                heard.delta.set()
                heard.responded.set()

            group.start_soon(ask_once)
            await (heard.responded if bench.wire.document else heard.delta).wait()
            group.cancel_scope.cancel()
        with anyio.move_on_after(CLOSE_TIMEOUT_S):
            await closed.wait()
    if ended:
        explanation = f"an answer that had only begun ended with {_describe_outcome(ended[0])}"
        return [
            Violation(rule="cancellation" if bench.wire.document else "deltas-as-they-come", explanation=explanation)
        ]
    if not closed.is_set():
        return [
            Violation(rule="cancellation", explanation=f"the connection was not closed within {CLOSE_TIMEOUT_S:g} s")
        ]
    return []


async def _check_identity(bench: _Bench) -> list[Violation]:
    """Name, account and representation are not empty and hide the key; two keys are two accounts."""
    violations: list[Violation] = []
    url = "http://127.0.0.1:9/v1"
    async with bench.open_at(url) as provider:
        for attribute, value in (("name", provider.name), ("account", provider.account), ("repr", repr(provider))):
            if not value:
                violations.append(Violation(rule="identity", explanation=f"{attribute} is empty"))
            if TEST_CREDENTIAL in value:
                violations.append(Violation(rule="credential", explanation=f"{attribute} shows the key"))
        longer = attrs.evolve(bench.wire.request, messages=(UserText(text="Say hello." * 100),))
        if provider.size(longer) <= provider.size(bench.wire.request):
            violations.append(Violation(rule="size", explanation="a longer request is not larger"))
        async with bench.open_at(url, f"{TEST_CREDENTIAL}-other") as other:
            if other.account == provider.account:
                violations.append(Violation(rule="identity", explanation="two keys share one account"))
    return violations


def _check_event_order(heard: _EmittedLog) -> list[Violation]:
    """Exactly one `Responded`, as the first event."""
    responded = [place for place, item in enumerate(heard.items) if isinstance(item, Responded)]
    if responded == [0]:
        return []
    return [
        Violation(
            rule="status-first", explanation=f"Responded was emitted {len(responded)} times, at positions {responded}"
        )
    ]


def _check_single_request(server: LoopbackServer, case: str) -> list[Violation]:
    if len(server.seen) == 1:
        return []
    return [Violation(rule="asks-once", explanation=f"{case}: {len(server.seen)} requests were sent")]


def _check_provider_error(outcome: AnswerOrError, case: str) -> list[Violation]:
    """The outcome is a `ProviderError`, and neither it nor its causes show the key."""
    if not isinstance(outcome, ProviderError):
        return [Violation(rule="provider-error-only", explanation=f"{case}: ended with {_describe_outcome(outcome)}")]
    link: BaseException | None = outcome
    while link is not None:
        if TEST_CREDENTIAL in str(link) or TEST_CREDENTIAL in repr(link):
            return [Violation(rule="credential", explanation=f"{case}: {type(link).__name__} shows the key")]
        link = link.__cause__ or link.__context__
    return []


def _describe_outcome(outcome: AnswerOrError) -> str:
    return (
        "an answer"
        if isinstance(outcome, Answer)
        else f"{type(outcome).__name__}: {outcome}".replace(TEST_CREDENTIAL, "***")
    )


# --- requests ----------------------------------------------------------------------------------------------------


class _EmittedLog:
    """The emitted events in order."""

    def __init__(self) -> None:
        self.items: list[object] = []
        self.responded = anyio.Event()
        self.delta = anyio.Event()

    def __call__(self, item: object) -> None:
        self.items.append(item)
        (self.responded if isinstance(item, Responded) else self.delta).set()

    def join_text(self) -> str:
        return "".join(item.text for item in self.items if isinstance(item, TextDelta))


async def _capture_outcome(provider: Provider, request: Request, heard: _EmittedLog, timely_s: float) -> AnswerOrError:
    """Send the request and return its answer or the exception it raised."""
    try:
        with anyio.fail_after(timely_s):
            return await provider.answer(request, heard)
    except Exception as error:  # noqa: BLE001 - the boundary to third-party code, which may raise anything
        return error
