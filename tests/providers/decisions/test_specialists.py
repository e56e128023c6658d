"""Specialists as they come: real programs and a real server, good ones and bad ones."""

import json
import sys
import textwrap
import time  # noqa: TID251 - how long it takes is what is tested
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
from anyio.abc import SocketStream

from providers.base import Answer, Emitted, Origin, Request, Responded, TextDelta, UserText
from providers.contract import TEST_CREDENTIAL, Wire, check_answer, check_provider
from providers.decisions.decision import Cause, Failure
from providers.decisions.flow import run_flow
from providers.decisions.model import Capability, ExecNode, HttpNode
from providers.decisions.specialists import MAX_OUTPUT_BYTES, ExecSpecialist, HttpSpecialist
from providers.errors import ProviderError
from providers.loopback import Exchange, LoopbackServer, serve_loopback
from providers.system.http import HttpPool
from providers.system.marks import build_home_prefix
from store.errors import UsageError
from tests.providers.system.test_process import is_alive

pytestmark = pytest.mark.anyio

ORIGIN = Origin(suite_id="lab", case_id="c", repetition=0)
MARKER = "20261130T101500Z-1a2b3c4d/7/1"
REQUEST = Request(
    origin=ORIGIN,
    model="",
    instructions="",
    messages=(UserText(text='{"tool_name":"Bash","añ":1}'),),
    timeout_ms=20_000,
    key=f"{MARKER}/3",
)


def script(base: Path, body: str, name: str = "gate.py") -> str:
    file = base / "specialists" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(textwrap.dedent(body))
    return f"specialists/{name}"


def in_python(base: Path, body: str) -> ExecSpecialist:
    """A specialist that is a Python program."""
    return program(base, sys.executable, script(base, body))


def in_sh(base: Path, body: str) -> ExecSpecialist:
    return program(base, "sh", "-c", body)


def program(base: Path, *command: str) -> ExecSpecialist:
    return ExecSpecialist(ExecNode(id="gate", command=command), name="exec:toolgate/gate", base=base)


async def answered(specialist: ExecSpecialist | HttpSpecialist, request: Request = REQUEST) -> str:
    return (await specialist.answer(request, lambda _item: None)).text


async def failure(specialist: ExecSpecialist | HttpSpecialist, request: Request = REQUEST) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        await specialist.answer(request, lambda _item: None)
    return raised.value


def none_survives(base: Path, at_least: int) -> None:
    """Of the processes that a specialist has written down."""
    pids = [int(line) for line in (base / "pids").read_text().split()]
    assert len(pids) >= at_least
    assert [pid for pid in pids if is_alive(pid)] == []


# --- programs that answer ---------------------------------------------------------------------------------------


async def test_a_program_reads_the_input_and_its_output_is_the_answer(tmp_path: Path) -> None:
    specialist = in_python(
        tmp_path,
        """
        import json, sys
        asked = json.load(sys.stdin)
        print(json.dumps({"verdict": "deny", "asked": asked}, ensure_ascii=False))
        """,
    )

    answer = await specialist.answer(REQUEST, lambda _item: None)

    assert json.loads(answer.text) == {"verdict": "deny", "asked": {"tool_name": "Bash", "añ": 1}}
    assert (answer.usage, answer.model, answer.cost_nusd, answer.finish) == (None, None, None, "stop")


async def test_the_input_is_one_line(tmp_path: Path) -> None:
    assert await answered(in_sh(tmp_path, 'read -r line && printf %s "$line"')) == '{"tool_name":"Bash","añ":1}'


async def test_a_program_with_a_slash_is_relative_to_the_configuration_and_runs_in_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    base = tmp_path / "config"
    base.mkdir()
    file = base / script(base, "#!/bin/sh\npwd\n", "gate")
    file.chmod(0o755)
    monkeypatch.chdir(elsewhere)

    assert await answered(program(base, "specialists/gate")) == f"{base}\n"
    assert await answered(program(base, str(file))) == f"{base}\n"


async def test_a_program_sees_no_variable_of_this_process_but_path_and_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TYPESAFE_API_KEY", "sk-secret")
    monkeypatch.setenv("LD_PRELOAD_LIKE", "x")

    seen = dict(line.split("=", 1) for line in (await answered(in_sh(tmp_path, "env"))).splitlines())

    own = {"PWD", "OLDPWD", "SHLVL", "_", "EVALCTL_PROCESS", "PYTHONDONTWRITEBYTECODE"}
    assert set(seen) - own == {"PATH", "HOME", "TMPDIR", "LANG", "EVALCTL_ATTEMPT"}
    assert seen["EVALCTL_ATTEMPT"] == MARKER


async def test_a_program_has_a_home_of_its_own_that_is_removed(tmp_path: Path) -> None:
    specialist = in_sh(
        tmp_path, 'touch "$HOME/kept"; mkdir -p "$TMPDIR/deep"; chmod 0 "$TMPDIR/deep"; printf %s "$HOME"'
    )

    first, second = await answered(specialist), await answered(specialist)

    assert first != second
    assert not await anyio.Path(first).exists()
    assert Path(first).parent != tmp_path
    assert Path(first).name.startswith(build_home_prefix(MARKER))


async def test_a_byte_order_mark_is_no_part_of_the_answer(tmp_path: Path) -> None:
    assert await answered(in_sh(tmp_path, r"printf '\357\273\277{}'")) == "{}"


async def test_what_a_program_says_on_stderr_does_not_matter_where_it_answers(tmp_path: Path) -> None:
    assert await answered(in_sh(tmp_path, "echo loading >&2; echo 1")) == "1\n"


async def test_a_program_keeps_the_contract_of_providers(tmp_path: Path) -> None:
    assert await check_answer(in_sh(tmp_path, "cat"), REQUEST) == []
    assert in_sh(tmp_path, "cat").size(REQUEST) == len(REQUEST.messages[0].text.encode())


async def test_programs_run_beside_each_other(tmp_path: Path) -> None:
    """Each waits for the other's file."""
    wait = "touch {0}; until test -e {1}; do sleep 0.01; done; echo {0}"
    texts = []

    async def ask(own: str, other: str) -> None:
        texts.append(await answered(in_sh(tmp_path, wait.format(own, other))))

    async with anyio.create_task_group() as group:
        group.start_soon(ask, "a", "b")
        group.start_soon(ask, "b", "a")
    assert sorted(texts) == ["a\n", "b\n"]


# --- programs that do not ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("echo no such model >&2; exit 3", "sh ended with exit code 3: no such model"),
        ("exit 1", "sh ended with exit code 1"),
        ("echo '{}'; exit 1", "sh ended with exit code 1"),
        ("kill -SEGV $$", "sh ended by SIGSEGV"),
        ("echo bye >&2; kill -KILL $$", "sh ended by SIGKILL: bye"),
        (r"printf '\033[31mred\033[0m\n' >&2; exit 2", "sh ended with exit code 2: [31mred [0m"),
    ],
)
async def test_a_program_that_ends_badly_has_not_answered(tmp_path: Path, body: str, message: str) -> None:
    error = await failure(in_sh(tmp_path, body))

    assert (error.kind, error.message, error.retryable) == ("server_error", message, False)


async def test_the_end_of_a_traceback_is_what_is_told(tmp_path: Path) -> None:
    error = await failure(in_python(tmp_path, "import json\n" + "# \n" * 50 + "json.loads('not json at all')\n"))

    assert error.message.endswith("json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)")
    assert len(error.message) < 300


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        ("a\n" * 10 + "File gate.py, line 7\n\n" + "  raise ValueError(here)\n" * 6 + "ValueError: no", None),
        ("first\n" + "x" * 150 + "\nKeyError: 'verdict'\n", "KeyError: 'verdict'"),
        ("Traceback\nValueError: " + "word " * 100, "ValueError: word word"),
        ("z" * 9000 + " last words of one endless line", "last words of one endless line"),
        ("z" * 9000 + "\nthe last line", "the last line"),
        ("first\n\n \n", "first"),
    ],
)
async def test_what_a_program_said_last_is_told_from_the_beginning_of_a_line(
    tmp_path: Path, stderr: str, said: str | None
) -> None:
    (tmp_path / "stderr").write_text(stderr, encoding="utf-8")

    error = await failure(in_sh(tmp_path, "cat stderr >&2; exit 1"))

    told = error.message.removeprefix("sh ended with exit code 1: ")
    lines = [" ".join(line.split()) for line in stderr.splitlines()]
    assert told.startswith(said or tuple(filter(None, lines)))
    assert len(told) <= 200


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("specialists/nope",), "cannot start specialists/nope: No such file or directory"),
        (("evalctl-no-such-program",), "cannot start evalctl-no-such-program: No such file or directory"),
        (("specialists/gate.py",), "cannot start specialists/gate.py: Permission denied"),
    ],
)
async def test_a_program_that_cannot_be_started_has_not_answered(
    tmp_path: Path, command: tuple[str, ...], message: str
) -> None:
    script(tmp_path, "is not executable")

    error = await failure(program(tmp_path, *command))

    assert (error.kind, error.message, error.retryable, error.turned_away) == ("server_error", message, False, True)


async def test_a_flood_is_no_answer(tmp_path: Path) -> None:
    for stream in ("1", "2"):
        error = await failure(in_sh(tmp_path, f"head -c 10000000 /dev/zero >&{stream}; echo '{{}}'"))
        assert (error.kind, error.message) == ("bad_payload", "sh wrote more than 1 MiB")


async def test_what_is_no_utf_8_is_no_answer(tmp_path: Path) -> None:
    error = await failure(in_sh(tmp_path, r"printf '\"\377\"'"))

    assert (error.kind, error.message) == ("bad_payload", "the answer of sh is not valid UTF-8")


TREE = """
echo $$ >> pids
sleep 301 & echo $! >> pids
setsid sh -c 'echo $$ >> pids; exec sleep 302' &
(setsid sh -c 'echo $$ >> pids; exec sleep 303' &)
until [ $(wc -l < pids) -ge 4 ]; do sleep 0.01; done
"""
"""Three descendants: one in the group, one in a session of its own, one orphaned; all hold the pipes open."""


async def test_a_daemon_that_holds_the_pipe_ends_with_the_answer(tmp_path: Path) -> None:
    assert await answered(in_sh(tmp_path, TREE + "echo 1")) == "1\n"
    none_survives(tmp_path, 4)


async def test_a_slow_program_is_ended_with_its_whole_tree(tmp_path: Path) -> None:
    error = await failure(in_sh(tmp_path, TREE + "sleep 300"), attrs.evolve(REQUEST, timeout_ms=1500))

    assert (error.kind, error.message, error.retryable) == ("timeout", "no whole answer within 1500 ms", False)
    none_survives(tmp_path, 1)


async def test_a_program_that_ignores_being_terminated_is_killed(tmp_path: Path) -> None:
    begun = time.monotonic()
    error = await failure(
        in_sh(tmp_path, "trap '' TERM; echo $$ >> pids; while :; do sleep 0.1; done"),
        attrs.evolve(REQUEST, timeout_ms=1000),
    )

    assert error.kind == "timeout"
    assert time.monotonic() - begun < 10
    none_survives(tmp_path, 1)


async def test_a_flood_without_end_is_ended(tmp_path: Path) -> None:
    error = await failure(
        in_sh(tmp_path, "echo $$ >> pids; exec cat /dev/zero"), attrs.evolve(REQUEST, timeout_ms=1000)
    )

    assert error.kind == "timeout"
    none_survives(tmp_path, 1)


async def test_nothing_of_a_program_is_left_when_who_asked_is_cancelled(tmp_path: Path) -> None:
    with anyio.move_on_after(20) as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(answered, in_sh(tmp_path, TREE + "touch up; sleep 300"))
            while not (tmp_path / "up").exists():  # noqa: ASYNC110 - it comes to be in another process
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()

    assert not scope.cancelled_caught
    none_survives(tmp_path, 4)


@pytest.mark.parametrize(
    ("body", "cause", "message"),
    [
        (
            "echo rubbish",
            "specialist",
            'the answer is not JSON (line 1, column 1: Expecting value): "rubbish\\n"',
        ),
        ("true", "specialist", 'the answer is not JSON (line 1, column 1: Expecting value): ""'),
        ("exit 3", "specialist", "server_error: sh ended with exit code 3"),
        ("kill -9 $$", "specialist", "server_error: sh ended by SIGKILL"),
        ("sleep 300", "timeout", "timeout: no whole answer within 700 ms"),
        ("head -c 10000000 /dev/zero", "specialist", "bad_payload: sh wrote more than 1 MiB"),
    ],
)
async def test_what_a_program_does_wrong_is_its_flows_error_with_the_cause(
    tmp_path: Path, body: str, cause: Cause, message: str
) -> None:
    node = ExecNode(id="gate", command=("sh", "-c", body), timeout_ms=700 if cause == "timeout" else 20_000)
    capability = Capability(name="toolgate", input_schema={}, flow=(node,))

    decision = await run_flow(capability, {}, ask_of=asking(in_sh(tmp_path, body)), origin=ORIGIN, clock=None)

    assert decision.error == Failure(cause=cause, message=message, node="gate")


def asking(specialist: ExecSpecialist | HttpSpecialist) -> Callable[..., Any]:
    async def ask(request: Request) -> Answer:
        return await specialist.answer(request, lambda _item: None)

    return lambda _name: ask


# --- endpoints --------------------------------------------------------------------------------------------------


def vendor(url: str, key: str | None = TEST_CREDENTIAL) -> HttpSpecialist:
    return HttpSpecialist(name="http:toolgate/vendor", url=url, api_key=key, pool=HttpPool())


@asynccontextmanager
async def asked_of(
    behave: Callable[..., Any], key: str | None = TEST_CREDENTIAL
) -> AsyncIterator[tuple[HttpSpecialist, LoopbackServer]]:
    async with serve_loopback(behave) as server:
        specialist = vendor(f"{server.url}/decide/?version=1", key)
        try:
            yield specialist, server
        finally:
            await specialist.aclose()


def says(body: bytes, status: int = 200, *headers: str) -> Callable[..., Any]:
    async def behave(exchange: Exchange) -> None:
        await exchange.send_head(status, "application/json", f"content-length: {len(body)}", *headers)
        await exchange.send_body(body)

    return behave


async def refused(behave: Callable[..., Any]) -> ProviderError:
    async with asked_of(behave) as (specialist, _):
        error = await failure(specialist)
    assert TEST_CREDENTIAL not in str(error)
    return error


async def test_an_endpoint_keeps_the_contract_of_providers() -> None:
    wire = Wire(
        content_type="application/json",
        answer=b'{"verdict": "deny"}',
        text='{"verdict": "deny"}',
        begun=b'{"verdict": "de',
    )

    assert await check_provider(vendor, wire) == []


async def test_an_endpoint_is_posted_the_input_and_its_body_is_the_answer() -> None:
    heard: list[Emitted] = []
    async with asked_of(says('{"verdict": "añ"}'.encode())) as (specialist, server):
        answer = await specialist.answer(REQUEST, heard.append)

    assert answer.text == '{"verdict": "añ"}'
    assert (answer.usage, answer.cost_nusd, answer.finish) == (None, None, "stop")
    assert heard[0] == Responded(status=200)
    assert "".join(item.text for item in heard[1:] if isinstance(item, TextDelta)) == answer.text
    [seen] = server.seen
    assert seen.body == REQUEST.messages[0].text.encode()
    assert seen.headers["authorization"] == f"Bearer {TEST_CREDENTIAL}"
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["idempotency-key"] == REQUEST.key


async def test_without_a_key_none_is_sent() -> None:
    async with asked_of(says(b"1"), key=None) as (specialist, server):
        assert await answered(specialist) == "1"
    assert "authorization" not in server.seen[0].headers


async def test_the_url_is_posted_to_as_it_is_written() -> None:
    lines = []

    async def serve(stream: SocketStream) -> None:
        async with stream:
            lines.append((await stream.receive()).split(b"\r\n")[0])
            await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    specialist = vendor(f"http://127.0.0.1:{port}/decide/?version=1#part")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        await answered(specialist)
        group.cancel_scope.cancel()
    await specialist.aclose()

    assert lines == [b"POST /decide/?version=1 HTTP/1.1"]


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, "invalid_request", False),
        (401, "auth", False),
        (402, "quota", False),
        (403, "permission", False),
        (404, "not_found", False),
        (500, "server_error", True),
        (503, "server_error", True),
    ],
)
async def test_a_refusal_says_whether_another_try_may_help(status: int, kind: str, retryable: bool) -> None:
    error = await refused(says(b'{"error": {"message": "your key %s"}}' % TEST_CREDENTIAL.encode(), status))

    assert (error.kind, error.retryable, error.status) == (kind, retryable, status)


async def test_an_endpoint_that_asks_for_patience_is_understood() -> None:
    error = await refused(says(b"slow down", 429, "retry-after: 7"))

    assert (error.kind, error.retryable, error.retry_after_s, error.message) == ("rate_limit", True, 7, "slow down")


async def test_a_redirect_is_not_followed() -> None:
    error = await refused(says(b"", 302, "location: http://127.0.0.1:1/"))

    assert "redirects are not followed" in error.message


async def test_what_is_no_json_and_whole_is_left_to_the_flow() -> None:
    async with asked_of(says(b"<html>")) as (specialist, _):
        assert await answered(specialist) == "<html>"


async def test_what_is_no_json_and_may_be_a_part_is_worth_another_try() -> None:
    async def behave(exchange: Exchange) -> None:
        await exchange.send_head(200, "application/json")
        await exchange.send_body(b'{"verdict": "de')

    error = await refused(behave)

    assert (error.kind, error.retryable, error.status) == ("truncated", True, 200)


async def test_an_answer_that_breaks_off_is_worth_another_try() -> None:
    async def behave(exchange: Exchange) -> None:
        await exchange.send_head(200, "application/json", "content-length: 100")
        await exchange.send_body(b'{"verdict": "deny"}')

    error = await refused(behave)

    assert (error.kind, error.retryable) == ("truncated", True)


async def test_a_connection_that_closes_without_an_answer_is_worth_another_try() -> None:
    error = await refused(Exchange.send_nothing)

    assert (error.kind, error.retryable) == ("network", True)


async def test_an_answer_is_no_larger_than_1_mib() -> None:
    error = await refused(says(b'"' + b"x" * MAX_OUTPUT_BYTES + b'"'))

    assert (error.kind, error.retryable) == ("bad_payload", False)
    assert error.message.endswith("/v1/decide/: the answer is larger than 1 MiB")


async def test_an_answer_that_is_no_utf_8_is_none() -> None:
    error = await refused(says(b'"\xff"'))

    assert (error.kind, error.retryable) == ("bad_payload", False)


async def test_a_character_that_comes_in_two_pieces_is_one() -> None:
    async def behave(exchange: Exchange) -> None:
        await exchange.send_head(200, "application/json", "content-length: 6")
        for byte in '"😀"'.encode():
            await exchange.send_body(bytes([byte]))
            await anyio.sleep(0.005)

    async with asked_of(behave) as (specialist, _):
        assert await answered(specialist) == '"😀"'


async def test_an_endpoint_that_hangs_is_given_up_by_who_asks_and_its_connection_is_closed() -> None:
    closed = anyio.Event()

    async def behave(exchange: Exchange) -> None:
        await exchange.wait_until_closed()
        closed.set()

    async with asked_of(behave) as (specialist, _):
        with anyio.move_on_after(0.2) as scope:
            await answered(specialist)
        with anyio.fail_after(5):
            await closed.wait()
    assert scope.cancelled_caught


async def test_an_endpoint_that_hangs_is_given_up_in_the_end_where_nobody_else_does() -> None:
    async def behave(exchange: Exchange) -> None:
        await exchange.wait_until_closed()

    async with asked_of(behave) as (specialist, _):
        error = await failure(specialist, attrs.evolve(REQUEST, timeout_ms=1))
    assert error.kind == "timeout"


@pytest.mark.parametrize(
    ("behave", "cause"),
    [
        (says(b"<html>"), "specialist"),
        (says(b""), "specialist"),
        (says(b"[1", 200), "specialist"),
        (says(b"no", 500), "specialist"),
        (says(b"no", 429), "specialist"),
        (says(b"no", 401), "auth"),
        (says(b"no", 402), "quota"),
        (says(b"no", 504), "timeout"),
        (Exchange.send_nothing, "specialist"),
    ],
)
async def test_what_an_endpoint_does_wrong_is_its_flows_error_with_the_cause(
    behave: Callable[..., Any], cause: Cause
) -> None:
    node = HttpNode(id="vendor", url="http://127.0.0.1:9/")
    capability = Capability(name="toolgate", input_schema={}, flow=(node,))
    async with asked_of(behave) as (specialist, _):
        decision = await run_flow(capability, {}, ask_of=asking(specialist), origin=ORIGIN, clock=None)

    assert (decision.status, decision.error.cause, decision.error.node) == ("error", cause, "vendor")


@pytest.mark.parametrize(
    ("url", "key", "message"),
    [
        ("ftp://x/y", None, "is not an http or https URL"),
        ("http://user:secret@x/y", None, "holds credentials"),
        ("http://x/y", "", "the key of http:toolgate/vendor is empty"),
        ("http://x/y", "añ", "contains characters that an HTTP header cannot contain"),
    ],
)
async def test_an_endpoint_that_cannot_be_posted_to_is_refused(url: str, key: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        vendor(url, key)
    assert "secret" not in str(raised.value)
