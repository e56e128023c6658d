"""The hub as an application: what it answers, and whom it does not answer."""

from __future__ import annotations

import json
import string
from collections.abc import Callable, MutableMapping
from typing import Any

import anyio
import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.lab.hub import app as hub_module
from orchestrator.lab.hub.app import MAX_BODY_BYTES, MAX_WAITING_REQUESTS, Hub, encode_response
from providers.base import Answer, Emit, Request
from providers.decisions.decision import Decision, Failure
from providers.decisions.model import Capability, DaemonConfig, ModelNode, RuleNode
from providers.errors import ProviderError
from store.secrets.redactor import Redactor

HOST = (b"host", b"127.0.0.1:8740")
ANSWER = {"type": "object", "required": ["verdict"], "properties": {"verdict": {"enum": ["allow", "deny"]}}}
GATE = Capability(
    name="gate",
    input_schema={"type": "object", "required": ["tool"]},
    flow=(
        RuleNode(id="reading", when="input.tool == 'read'", decision={"verdict": "allow"}),
        ModelNode(id="judge", prompt="{{ input.tool }}", backend="house", model="m", answer=ANSWER, timeout_ms=20_000),
    ),
)


class House:
    """A provider in the port's plainest form, which says *text* once *lets* lets it."""

    name = account = "house"

    def __init__(
        self,
        text: str = '{"answer": {"verdict": "deny"}, "confidence": 0.9}',
        *,
        lets: anyio.Event | None = None,
        error: ProviderError | ZeroDivisionError | None = None,
    ) -> None:
        self.text, self.lets, self.error = text, lets, error
        self.requests: list[Request] = []
        self.cancelled = 0

    def size(self, request: Request) -> int:
        return 0

    async def answer(self, request: Request, emit: Emit) -> Answer:
        self.requests.append(request)
        try:
            if self.lets is not None:
                await self.lets.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return Answer(text=self.text)

    async def aclose(self) -> None:
        pass


def hub_of(house: House | None = None, *, capability: Capability = GATE, **options: Any) -> Hub:
    daemon = DaemonConfig(backends={}, capabilities={capability.name: capability})
    return Hub(daemon, {"house": house or House()}, name="test", **{"concurrency": 2, **options})


@attrs.define
class Reply:
    status: int = 0
    headers: dict[str, str] = attrs.field(factory=dict)
    body: bytes = b""

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str]:
        assert list(self.json) == ["error"]
        assert sorted(self.json["error"]) == ["code", "message"]
        return self.status, self.json["error"]["code"]


async def send(
    hub: Hub,
    body: bytes = b"",
    *,
    method: str = "POST",
    path: str = "/v1/hub",
    headers: tuple[tuple[bytes, bytes], ...] = (HOST,),
    pieces: int = 1,
    left: anyio.Event | None = None,
    reply: Reply | None = None,
    stuck: bool = False,
) -> Reply:
    """One request, its body in *pieces*, the last of which never comes if it is *stuck*; the client leaves when *left*
    is set.
    """
    reply = reply or Reply()
    size = -(-len(body) // pieces) or 1
    parts = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
    messages = [
        {"type": "http.request", "body": part, "more_body": number < len(parts)} for number, part in enumerate(parts, 1)
    ]

    async def receive() -> dict[str, Any]:
        if len(messages) > int(stuck):
            return messages.pop(0)
        await (left or anyio.Event()).wait()
        return {"type": "http.disconnect"}

    async def answer(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            reply.status = message["status"]
            reply.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            reply.body += message.get("body", b"")

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": list(headers),
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8740),
    }
    with anyio.fail_after(30):
        await hub(scope, receive, answer)
    return reply


def asked(value: dict[str, str], capability: str = "gate") -> bytes:
    return json.dumps({"capability": capability, "input": value}).encode()


def ask(hub: Hub, body: bytes = b"", **how: Any) -> Reply:
    async def main() -> Reply:
        return await send(hub, body, **how)

    return anyio.run(main)


# --- decisions ----------------------------------------------------------------------------------------------------


def test_a_decision_is_the_whole_answer() -> None:
    reply = ask(hub_of(), asked({"tool": "read"}))
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert sorted(reply.json) == ["abstain", "decision", "error", "status", "trace"]
    assert (reply.json["status"], reply.json["decision"]) == ("ok", {"verdict": "allow"})


def test_a_body_in_pieces_is_read_whole() -> None:
    house = House()
    reply = ask(hub_of(house), asked({"tool": "write"}), pieces=7)
    assert reply.json["decision"] == {"verdict": "deny"}
    assert [request.model for request in house.requests] == ["m"]


def test_each_request_to_a_backend_has_a_key_of_its_own() -> None:
    house = House()
    hub = hub_of(house)

    async def main() -> None:
        for _ in range(3):
            await send(hub, asked({"tool": "write"}))

    anyio.run(main)
    assert len({request.key for request in house.requests}) == 3


def test_an_input_that_breaks_its_schema_is_a_decision_of_status_error() -> None:
    reply = ask(hub_of(), asked({"tol": "read"}))
    assert (reply.status, reply.json["status"], reply.json["error"]["cause"]) == (200, "error", "input")


def test_a_backend_that_fails_is_a_decision_of_status_error() -> None:
    error = ProviderError(kind="overloaded", message="come again", retryable=True, status=503)
    reply = ask(hub_of(House(error=error)), asked({"tool": "write"}))
    assert (reply.status, reply.json["error"]["cause"]) == (200, "provider")


def test_a_backend_that_takes_longer_than_its_node_allows_is_given_up() -> None:
    [rule, judge] = GATE.flow
    assert isinstance(judge, ModelNode)
    hasty = attrs.evolve(GATE, flow=(rule, attrs.evolve(judge, timeout_ms=30)))

    async def main() -> Reply:
        return await send(hub_of(House(lets=anyio.Event()), capability=hasty), asked({"tool": "write"}))

    reply = anyio.run(main)
    assert reply.json["error"]["cause"] == "timeout"


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_whatever_a_decision_holds_can_be_sent(value: Any) -> None:
    assert json.loads(encode_response({"decision": value})) == {"decision": value}


def test_what_is_secret_is_taken_out_of_an_answer() -> None:
    clean = Redactor([("HOUSE_KEY", "zq-0123456789-abcdef")]).redact_json
    house = House(error=ProviderError(kind="server_error", message="you sent zq-0123456789-abcdef", retryable=False))
    reply = ask(hub_of(house, clean=clean), asked({"tool": "write"}))
    assert "you sent [redacted:HOUSE_KEY]" in reply.json["error"]["message"]
    assert b"zq-0123456789" not in reply.body


def test_a_decision_with_half_a_character_can_be_sent() -> None:
    assert json.loads(encode_response({"reason": "\ud800 é"})) == {"reason": "\ud800 é"}


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        (b"", (400, "bad_json"), "body:1:1"),
        (b"capability=gate", (400, "bad_json"), "body:1:1"),
        (b'{"capability": "gate",\n "input": NaN}', (400, "bad_json"), "body:2:11"),
        (b'{"capability": "gate", "capability": "gate", "input": 1}', (400, "bad_json"), "capability"),
        (b'{"capability": "gate", "input": "\xff"}', (400, "bad_json"), "UTF-8"),
        (b"[" * 100_000, (400, "bad_json"), "deep"),
        (b"[1]", (422, "bad_request"), "expected an object"),
        (b'{"capability": "gate"}', (422, "bad_request"), "input: missing required field"),
        (b'{"input": 1}', (422, "bad_request"), "capability: missing required field"),
        (b'{"capability": 7, "input": 1}', (422, "bad_request"), "capability: expected a string, got 7"),
        (b'{"capability": "gate", "imput": 1}', (422, "bad_request"), "did you mean 'input'?"),
        (b'{"capability": "gaet", "input": 1}', (404, "unknown_capability"), "did you mean 'gate'?"),
    ],
)  # fmt: skip
def test_a_body_that_asks_for_nothing_is_refused_with_what_is_wrong(
    body: bytes, error: tuple[int, str], words: str
) -> None:
    reply = ask(hub_of(), body)
    assert reply.error == error
    assert words in reply.json["error"]["message"]


def test_a_hostile_name_comes_back_short_and_printable() -> None:
    reply = ask(hub_of(), json.dumps({"capability": "\x1b[2J" * 10_000, "input": 1}).encode())
    assert reply.error == (404, "unknown_capability")
    assert len(reply.body) < 1000
    assert "\x1b" not in reply.json["error"]["message"]


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/hub/", "/v1/hub/x", "/v1/hub2", "/docs", "/%2e%2e/etc/passwd"])
def test_other_paths_are_not_found(path: str) -> None:
    reply = ask(hub_of(), asked({"tool": "read"}), path=path)
    assert reply.error == (404, "not_found")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS", "BREW"])
def test_other_methods_are_refused_with_the_one_that_is_taken(method: str) -> None:
    reply = ask(hub_of(), method=method)
    assert reply.error == (405, "method_not_allowed")
    assert reply.headers["allow"] == "POST"


def test_a_body_of_exactly_the_limit_is_read() -> None:
    frame = len(asked({"tool": "read", "pad": ""}))
    reply = ask(hub_of(), asked({"tool": "read", "pad": "x" * (MAX_BODY_BYTES - frame)}), pieces=5)
    assert reply.json["status"] == "ok"


@pytest.mark.parametrize("told", [True, False])
def test_a_larger_body_is_refused_whether_its_length_was_told_or_not(told: bool) -> None:
    house = House()
    body = asked({"tool": "write", "pad": "x" * MAX_BODY_BYTES})
    headers = (HOST, (b"content-length", str(len(body)).encode())) if told else (HOST,)
    reply = ask(hub_of(house), body, headers=headers, pieces=20)
    assert reply.error == (413, "too_large")
    assert house.requests == []


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "BODY_TIMEOUT_S", 0.05)
    reply = ask(hub_of(), asked({"tool": "read"}), pieces=2, stuck=True)
    assert reply.error == (408, "too_slow")
    assert reply.headers["connection"] == "close"


def test_a_body_that_breaks_off_is_refused() -> None:
    left = anyio.Event()
    left.set()
    reply = ask(hub_of(), asked({"tool": "read"}), pieces=2, stuck=True, left=left)
    assert reply.error == (400, "bad_json")


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "evil.example:8740", "", "127.0.0.1@evil.example", "[::1", "0.0.0.0"],
)
def test_a_name_that_was_led_here_is_refused(host: str) -> None:
    house = House()
    reply = ask(hub_of(house), asked({"tool": "write"}), headers=((b"host", host.encode()),))
    assert reply.error == (400, "bad_host")
    assert house.requests == []


def test_no_host_and_two_hosts_are_refused() -> None:
    assert ask(hub_of(), asked({"tool": "read"}), headers=()).error == (400, "bad_host")
    assert ask(hub_of(), asked({"tool": "read"}), headers=(HOST, HOST)).error == (400, "bad_host")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:9", "LOCALHOST", "[::1]:8740", "127.0.0.7"])
def test_names_of_this_machine_are_answered(host: str) -> None:
    hub = hub_of(names=frozenset(["127.0.0.7"]))
    assert ask(hub, asked({"tool": "read"}), headers=((b"host", host.encode()),)).status == 200


@given(st.text(string.printable, min_size=1, max_size=40))
def test_no_host_brings_the_hub_down(host: str) -> None:
    assert ask(hub_of(), asked({"tool": "read"}), headers=((b"host", host.encode("latin-1")),)).status in (200, 400)


def test_a_web_page_is_refused() -> None:
    house = House()
    reply = ask(hub_of(house), asked({"tool": "write"}), headers=(HOST, (b"origin", b"https://evil.example")))
    assert reply.error == (403, "bad_origin")
    assert house.requests == []


# --- many at a time -----------------------------------------------------------------------------------------------


async def until(look: Callable[..., Any]) -> None:
    while not look():
        await anyio.wait_all_tasks_blocked()


def test_no_more_decisions_are_made_at_a_time_than_allowed_and_too_many_are_told_to_come_again() -> None:
    async def main() -> tuple[Reply, list[Reply]]:
        house = House(lets=anyio.Event())
        hub = hub_of(house, concurrency=2)
        replies: list[Reply] = []

        async def one() -> None:
            replies.append(await send(hub, asked({"tool": "write"})))

        async with anyio.create_task_group() as group:
            for _ in range(2 + MAX_WAITING_REQUESTS):
                group.start_soon(one)
            await until(lambda: len(house.requests) == 2)
            await anyio.wait_all_tasks_blocked()
            assert len(house.requests) == 2
            busy = await send(hub, asked({"tool": "write"}))
            house.lets.set()
        return busy, replies

    busy, replies = anyio.run(main)
    assert busy.error == (503, "busy")
    assert busy.headers["retry-after"] == "1"
    assert [reply.status for reply in replies] == [200] * (2 + MAX_WAITING_REQUESTS)


def test_who_hangs_up_is_worked_for_no_longer() -> None:
    async def main() -> int:
        house, left = House(lets=anyio.Event()), anyio.Event()
        hub = hub_of(house)
        async with anyio.create_task_group() as group:

            async def one() -> None:
                await send(hub, asked({"tool": "write"}), left=left)

            group.start_soon(one)
            await until(lambda: house.requests)
            left.set()
        return house.cancelled

    assert anyio.run(main) == 1


def test_stopping_gives_up_what_is_being_decided_and_decides_nothing_more() -> None:
    async def main() -> tuple[House, list[Reply]]:
        house = House(lets=anyio.Event())
        hub = hub_of(house)
        replies: list[Reply] = []

        async def one() -> None:
            replies.append(await send(hub, asked({"tool": "write"})))

        async with anyio.create_task_group() as group:
            group.start_soon(one)
            await until(lambda: house.requests)
            hub.stop_deciding()
        replies.append(await send(hub, asked({"tool": "write"})))
        return house, replies

    house, replies = anyio.run(main)
    assert [reply.error for reply in replies] == [(503, "stopping")] * 2
    assert (house.cancelled, len(house.requests)) == (1, 1)


def test_every_decision_is_told_with_its_capability() -> None:
    heard = []
    hub = hub_of(on_decision=lambda name, decision, _seconds: heard.append((name, decision.status)))
    ask(hub, asked({"tool": "read"}))
    ask(hub, asked({}))
    assert heard == [("gate", "ok"), ("gate", "error")]


def test_a_bug_is_told_to_the_client_and_not_swallowed() -> None:
    reply = Reply()

    async def main() -> None:
        await send(hub_of(House(error=ZeroDivisionError("oops"))), asked({"tool": "write"}), reply=reply)

    with pytest.raises(ExceptionGroup, match="unhandled"):
        anyio.run(main)
    assert reply.error == (500, "bug")
    assert b"oops" not in reply.body


def test_a_failure_is_told_with_its_node() -> None:
    decision = Decision(status="error", error=Failure(cause="quota", message="spent", node="judge"))
    assert json.loads(encode_response(decision.to_json()))["error"] == {
        "cause": "quota",
        "message": "spent",
        "node": "judge",
    }
