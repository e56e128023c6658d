"""The hub, an ASGI application: `POST /v1/hub` answers with the decision that a lab makes in process.

Flows call their providers directly and without retries, gate, budget or store; only the number of concurrent decisions
is limited. The hub serves programs on this machine. It refuses requests of web pages by two headers: `Host`, against
DNS rebinding, and `Origin`, against cross-site requests.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, NoReturn
from urllib.parse import urlsplit

import anyio
import attrs

from providers.base import Answer, Ask, Emitted, Origin, Provider, Request
from providers.decisions.decision import Decision
from providers.decisions.flow import run_flow
from providers.decisions.model import Capability, DaemonConfig
from providers.errors import ProviderError
from store.documents.positions import parse_json
from store.documents.structure import describe_value, suggest_nearest
from store.errors import UsageError
from store.events import Json

PATH = "/v1/hub"
MAX_BODY_BYTES = 1024 * 1024
BODY_TIMEOUT_S = 30.0
"""Seconds in which a request's body has to arrive."""
MAX_DRAINED_BYTES = 16 * 1024 * 1024
"""Bytes of a too large body that are read and discarded."""
DRAIN_TIMEOUT_S = 2.0
"""Seconds for which a too large body is read and discarded."""
MAX_WAITING_REQUESTS = 64
"""Requests that may wait for their turn; further ones get status 503 with `Retry-After`."""
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of this machine that a `Host` header may have."""

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
OnDecision = Callable[[str, Decision, float], None]
"""Called after each decision with the capability's name, the decision and its duration in seconds."""


class HubRefusal(Exception):
    """A refused request; becomes a JSON error response."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})


@attrs.frozen(kw_only=True)
class HubRequest:
    """A decoded request: the capability and its input."""

    capability: Capability
    input: Json


class Hub:
    """The ASGI application of the hub.

    Args:
        daemon: the capabilities.
        providers: the providers of their flows, by the names of `Capability.find_provider_name`.
        name: unique to this process; the prefix of request keys.
        concurrency: the maximum of concurrent decisions.
        names: further names of this machine that a `Host` header may have.
        on_decision: called after each decision.
        clean: masks secrets in a response, as in everything that a lab stores.
    """

    def __init__(
        self,
        daemon: DaemonConfig,
        providers: Mapping[str, Provider],
        *,
        name: str,
        concurrency: int,
        names: frozenset[str] = frozenset(),
        on_decision: OnDecision = lambda _capability, _decision, _seconds: None,
        clean: Callable[[Json], Json] = lambda document: document,
    ) -> None:
        self._daemon = daemon
        self._providers = providers
        self._name = name
        self._limiter = anyio.CapacityLimiter(concurrency)
        self._names = LOCAL_NAMES | names
        self._on_decision = on_decision
        self._clean = clean
        self._numbers = itertools.count(1)
        self._running: set[anyio.CancelScope] = set()
        self._stopping = False
        self._routes = self._make_router()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":  # no websockets; the server sends no lifespan events
            return
        try:
            self._admit_request(scope)
        except HubRefusal as error:
            await _send_response(send, error.status, _error_to_json(error), error.headers)
            return
        await self._routes(scope, receive, send)

    def stop_deciding(self) -> None:
        """Cancel running decisions with the programs that they started; refuse new ones."""
        self._stopping = True
        for scope in self._running:
            scope.cancel()

    def _make_router(self) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        from starlette.applications import Starlette  # noqa: PLC0415 - starlette is the optional extra `hub`
        from starlette.exceptions import HTTPException  # noqa: PLC0415 - (the same)
        from starlette.requests import Request as HttpRequest  # noqa: PLC0415 - (the same)
        from starlette.responses import Response  # noqa: PLC0415 - (the same)
        from starlette.routing import Route  # noqa: PLC0415 - (the same)

        async def answer_refusal(request: HttpRequest, error: Exception) -> Response:
            assert isinstance(error, HTTPException)
            return _refusal_response(_make_routing_refusal(error, request.method, request.url.path))

        async def answer_failure(_request: HttpRequest, _error: Exception) -> Response:
            return _refusal_response(
                HubRefusal(500, "bug", "internal error of the hub; its standard error has the traceback")
            )

        def _refusal_response(error: HubRefusal) -> Response:
            return Response(encode_response(_error_to_json(error)), error.status, error.headers, "application/json")

        async def answer_request(request: HttpRequest) -> Response:
            try:
                decision = await self._decide_request(request.headers, request.receive)
            except HubRefusal as error:
                return _refusal_response(error)
            return Response(encode_response(self._clean(decision.to_json())), media_type="application/json")

        application = Starlette(
            routes=[Route(PATH, answer_request, methods=["POST"])],
            exception_handlers={HTTPException: answer_refusal, Exception: answer_failure},
        )
        application.router.redirect_slashes = False
        return application

    def _admit_request(self, scope: Scope) -> None:
        """Admit requests of programs on this machine.

        Raises:
            HubRefusal: the `Host` header names another machine, or a web page sent the request.
        """
        headers = [(name.lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) != 1 or _parse_host(f"//{hosts[0]}") not in self._names:
            message = (
                f"the Host header has to name this machine, such as 127.0.0.1, not {describe_value(', '.join(hosts))}"
            )
            raise HubRefusal(400, "bad_host", message)
        if any(name == b"origin" for name, _ in headers):
            raise HubRefusal(403, "bad_origin", "requests of web pages are refused")

    async def _decide_request(self, headers: Mapping[str, str], receive: Receive) -> Decision:
        """Read the request's body and decide.

        Raises:
            HubRefusal: the body is invalid, or the hub is busy or stopping.
        """
        outcome: Decision | HubRefusal | None = None
        with anyio.CancelScope() as scope:
            self._running.add(scope)
            try:
                if self._stopping:
                    scope.cancel()
                hub_request = self.read_request(await _read_body(headers, receive))
                async with anyio.create_task_group() as group:
                    group.start_soon(_cancel_on_disconnect, receive, group.cancel_scope)
                    outcome = await self._wait_and_decide(hub_request)
                    group.cancel_scope.cancel()
            finally:
                self._running.discard(scope)
        if isinstance(outcome, Decision):
            return outcome
        raise outcome or HubRefusal(503, "stopping", "the hub is stopping, or the client has disconnected")

    async def _wait_and_decide(self, hub_request: HubRequest) -> Decision | HubRefusal:
        if self._limiter.statistics().tasks_waiting >= MAX_WAITING_REQUESTS:
            message = f"{MAX_WAITING_REQUESTS} requests are already waiting"
            return HubRefusal(503, "busy", message, {"Retry-After": "1"})
        async with self._limiter:
            return await self.decide_request(hub_request)

    def read_request(self, body: bytes) -> HubRequest:
        """Decode a request's body, `{"capability": NAME, "input": ANYTHING}`.

        Raises:
            HubRefusal: it is not JSON, has another form, or names an unknown capability.
        """
        try:
            document = parse_json(body, name="body").value
        except UsageError as error:
            raise HubRefusal(400, "bad_json", str(error)) from None
        if not isinstance(document, dict):
            _refuse_body(f"expected an object with capability and input, got {describe_value(document)}")
        for key in document:
            if key not in ("capability", "input"):
                _refuse_body(f"{key}: unknown field{suggest_nearest(key, ['capability', 'input'])}")
        for key in ("capability", "input"):
            if key not in document:
                _refuse_body(f"{key}: missing required field")
        name = document["capability"]
        if not isinstance(name, str):
            _refuse_body(f"capability: expected a string, got {describe_value(name)}")
        capability = self._daemon.capabilities.get(name)
        if capability is None:
            known = list(self._daemon.capabilities)
            listed = f"There are: {', '.join(known)}." if known else "There are none."
            message = f"there is no capability {describe_value(name)}{suggest_nearest(name, known)}. {listed}"
            raise HubRefusal(404, "unknown_capability", message)
        return HubRequest(capability=capability, input=document["input"])

    async def decide_request(self, hub_request: HubRequest) -> Decision:
        """Run the capability's flow on the input."""
        number = next(self._numbers)
        requests = itertools.count(1)
        clock = asyncio.get_running_loop().time
        started = clock()

        def ask_of(name: str) -> Ask:
            provider = self._providers[name]

            async def ask_once(request: Request) -> Answer:
                key = f"hub-{self._name}/{number}/1/{next(requests)}"
                return await _ask_provider(provider, attrs.evolve(request, key=key))

            return ask_once

        name = hub_request.capability.name
        origin = Origin(suite_id="hub", case_id=name, repetition=1)
        decision = await run_flow(hub_request.capability, hub_request.input, ask_of=ask_of, origin=origin, clock=clock)
        self._on_decision(name, decision, clock() - started)
        return decision


def encode_response(document: Json) -> bytes:
    """Encode a response body: compact UTF-8 JSON, or ASCII with escapes if UTF-8 cannot encode a text."""
    try:
        return json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError:
        return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


async def _ask_provider(provider: Provider, request: Request) -> Answer:
    """Call the provider once, within the request's timeout."""
    if request.timeout_ms is None:
        return await provider.answer(request, _ignore_delta)
    with anyio.move_on_after(request.timeout_ms / 1000):
        return await provider.answer(request, _ignore_delta)
    raise ProviderError(kind="timeout", message=f"no whole answer within {request.timeout_ms} ms", retryable=False)


def _ignore_delta(_item: Emitted) -> None:
    """Ignore *_item*: the hub uses complete answers only."""


async def _cancel_on_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    """Cancel *scope* when the client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _read_body(headers: Mapping[str, str], receive: Receive) -> bytes:
    """Read the request's whole body.

    Raises:
        HubRefusal: it is too large, too slow or incomplete.
    """
    length = headers.get("content-length", "")
    if length.isdecimal() and (len(length) > 18 or int(length) > MAX_BODY_BYTES):
        if "expect" not in headers:  # a client that expects status 100 has not sent the body yet
            await _drain_body(receive)
        raise _make_size_refusal()
    body = bytearray()
    with anyio.move_on_after(BODY_TIMEOUT_S):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise HubRefusal(400, "bad_json", "the body is incomplete")
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > MAX_BODY_BYTES:
                if more:
                    await _drain_body(receive)
                raise _make_size_refusal()
            if not more:
                return bytes(body)
    raise HubRefusal(408, "too_slow", f"the body did not arrive within {BODY_TIMEOUT_S:g} s", {"Connection": "close"})


async def _drain_body(receive: Receive) -> None:
    """Read and discard more of the body: closing the connection while data arrives may lose the response."""
    remaining = MAX_DRAINED_BYTES
    with anyio.move_on_after(DRAIN_TIMEOUT_S):
        while remaining > 0:
            message = await receive()
            remaining -= len(message.get("body", b""))
            if not message.get("more_body", False):
                return


async def _send_response(send: Send, status: int, document: Json, headers: Mapping[str, str]) -> None:
    body = encode_response(document)
    all_headers = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in all_headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def _make_routing_refusal(error: Any, method: str, path: str) -> HubRefusal:
    """Return the refusal for a path or method that the router does not know."""
    headers = dict(error.headers or {})
    if error.status_code == 405:
        return HubRefusal(405, "method_not_allowed", f"{PATH} takes POST, not {describe_value(method)}", headers)
    return HubRefusal(
        error.status_code, "not_found", f"there is nothing at {describe_value(path)}; POST to {PATH}", headers
    )


def _make_size_refusal() -> HubRefusal:
    return HubRefusal(413, "too_large", f"the body is larger than {MAX_BODY_BYTES} bytes", {"Connection": "close"})


def _refuse_body(message: str) -> NoReturn:
    raise HubRefusal(422, "bad_request", message)


def _error_to_json(error: HubRefusal) -> Json:
    return {"error": {"code": error.code, "message": error.message}}


def _parse_host(url: str) -> str:
    """Return the host of *url* in lower case; empty if there is none."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return ""
    return "" if parts.username is not None or parts.path else (parts.hostname or "")
