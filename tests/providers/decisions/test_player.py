"""What was taped live is played back the same: the answer of every format, and every refusal, without a network."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import anyio
import attrs
import pytest

from providers.base import Answer, Body, Emit, Emitted, Origin, Provider, Request, Responded, TextDelta
from providers.decisions.answer_log import TIMEOUT_BODY, AnswerLog, AnswerRecorder, RecordedAnswer, build_error_answer
from providers.decisions.player import PLAYER_NAME, AnswerPlayer, HandWritten, find_answer_reader, read_plain_text
from providers.endpoints.endpoint import MAX_KEPT_BYTES
from providers.errors import ErrorKind, ProviderError
from providers.recording.divergence import NotRecorded
from providers.registry import ProviderOptions, find_provider
from providers.usage import Usage
from tests.providers.endpoints.asking import ASKED, KEY
from tests.providers.endpoints.systemone import speaking
from tests.providers.endpoints.wire import FOLDER, samples
from tests.providers.loopback import Exchange, serving

pytestmark = pytest.mark.anyio
SCHEMA = {"type": "object", "properties": {"deny": {"type": "boolean"}, "why": {"enum": ["a", "b"]}}}
ORIGIN = Origin(suite_id="lab", case_id="gate/rm-root", repetition=0, variant="jev", node="judge")
NODE = attrs.evolve(ASKED, origin=ORIGIN, answer_schema=SCHEMA)
FORMATS = ("openai", "openai-responses", "anthropic", "ollama", "typesafe")
SAID = '{"answer": {"deny": true}, "confidence": 0.9}'
DOCUMENTS = {
    "openai": {
        "model": "m",
        "choices": [{"index": 0, "message": {"content": SAID}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    },
    "openai-responses": {
        "model": "m",
        "status": "completed",
        "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": SAID}]}],
        "usage": {"input_tokens": 7, "output_tokens": 3},
    },
    "anthropic": {
        "type": "message",
        "model": "m",
        "content": [{"type": "text", "text": SAID}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 7, "output_tokens": 3},
    },
    "ollama": {
        "model": "m",
        "message": {"role": "assistant", "content": SAID},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 7,
        "eval_count": 3,
    },
    "typesafe": {
        "model": "m",
        "answers": {"deny": {"type": "noul", "noul": 0.9}, "why": {"type": "choice", "choice": "a", "confidence": 1}},
        "usage": {"input_tokens": 7, "output_tokens": 3},
    },
}
WIRE = {
    "openai-chat-sse": "openai",
    "openai-chat-json": "openai",
    "openai-responses-sse": "openai-responses",
    "anthropic-sse": "anthropic",
    "ollama-chat-ndjson": "ollama",
}
BODIES = [
    *[pytest.param(WIRE[document["format"]], body, id=name) for name, body, document in samples(*WIRE)],
    *[pytest.param(name, json.dumps(DOCUMENTS[name], indent=2).encode(), id=f"{name}-document") for name in FORMATS],
    *[pytest.param(name, b"<html>no</html>", id=f"{name}-page") for name in FORMATS],
    *[pytest.param(name, b'{"error": {"message": "boom"}}', id=f"{name}-error") for name in FORMATS],
    *[pytest.param(name, b"", id=f"{name}-empty") for name in FORMATS],
    *[pytest.param(name, json.dumps(DOCUMENTS[name]).encode()[:-9], id=f"{name}-cut") for name in FORMATS],
    pytest.param("openai", b"\xff\xfe\x00", id="openai-bytes"),
]
REFUSALS = {
    400: b'{"error": {"message": "maximum context length is 10", "code": "context_length_exceeded"}}',
    401: b'{"error": {"message": "bad key"}}',
    402: b"",
    404: b'{"error": "model \'m\' not found"}',
    422: b'{"detail": [{"msg": "no"}]}',
    429: b'{"error": {"code": "insufficient_quota", "message": "empty"}}',
    500: b"<html><h1>Oops</h1></html>",
    503: b"\xff\xff",
}


async def outcome(
    provider: Provider, request: Request = NODE, emit: Callable[..., Any] = lambda _item: None
) -> Answer | ProviderError:
    try:
        return await provider.answer(request, emit)
    except ProviderError as error:
        return error


def opened(kind: str, url: str, **options: Any) -> Provider:
    return find_provider(kind)(ProviderOptions(base_url=url, api_key=KEY, keep_bodies=True, **options))


async def taped(
    kind: str, script: Callable[..., Any], request: Request = NODE
) -> tuple[Answer | ProviderError, AnswerLog]:
    """What came of asking live, and what was recorded of it."""
    tape = AnswerLog()
    async with serving(script) as server:
        provider = AnswerRecorder(opened(kind, server.url), tape.keep_answer)
        try:
            return await outcome(provider, request), tape
        finally:
            await provider.aclose()


def player(kind: str, *recorded: RecordedAnswer) -> AnswerPlayer:
    return AnswerPlayer({("gate/rm-root", "jev"): {"judge": list(recorded)}}, {"jev": find_answer_reader(kind)})


async def played(kind: str, *recorded: RecordedAnswer, request: Request = NODE) -> Answer | ProviderError:
    return await outcome(player(kind, *recorded), request)


def same(live: Answer | ProviderError, again: Answer | ProviderError) -> None:
    """Equal but for what a replay must not do, which is to try again."""
    if isinstance(live, Answer):
        assert again == live
        return
    assert isinstance(again, ProviderError)
    told = ("kind", "message", "status", "mid_stream", "usage", "text", "model")
    assert [getattr(again, name) for name in told] == [getattr(live, name) for name in told]
    assert (again.retryable, again.retry_after_s) == (False, None)


# --- recorded ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "body"), BODIES)
async def test_answer_is_played_as_it_was_taped(kind: str, body: bytes) -> None:
    live, tape = await taped(kind, lambda exchange: exchange.whole(body))
    ((recorded,),) = tape.list_answers("gate/rm-root", "jev").values()
    same(live, await played(kind, recorded))
    assert KEY not in json.dumps(recorded.body)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("status", sorted(REFUSALS))
async def test_refusal_is_played_as_it_was_taped(kind: str, status: int) -> None:
    live, tape = await taped(kind, lambda exchange: exchange.whole(REFUSALS[status], status, retry_after="9"))
    ((recorded,),) = tape.list_answers("gate/rm-root", "jev").values()
    assert (recorded.status, live.status) == (status, status)
    same(live, await played(kind, recorded))


async def test_endpoint_that_answers_questions_is_played_as_it_was_taped() -> None:
    live, tape = await taped("typesafe", speaking())
    assert json.loads(live.text)["answer"] == {"deny": True, "why": "a"}
    ((recorded,),) = tape.list_answers("gate/rm-root", "jev").values()
    same(live, await played("typesafe", recorded))
    assert set(recorded.body) == {"model", "answers", "usage"}


@pytest.mark.parametrize("kind", FORMATS)
async def test_document_that_somebody_wrote_is_read(kind: str) -> None:
    answer = await played(kind, RecordedAnswer(status=200, body=DOCUMENTS[kind]))
    assert json.loads(answer.text)["answer"]["deny"] is True
    assert json.loads(answer.text)["confidence"] == 0.9
    assert answer.usage == Usage(input=7, output=3)


async def test_stream_that_was_cut_off_is_an_error_worth_no_other_try() -> None:
    body = (FOLDER / "055-cut-before-done.sse").read_bytes()
    error = await played("openai", RecordedAnswer(status=200, body=body.decode()[:200]))
    assert (error.kind, error.retryable) == ("truncated", False)


async def test_of_several_answers_the_last_counts() -> None:
    tried = [RecordedAnswer(status=503, body="busy"), RecordedAnswer(status=200, body=DOCUMENTS["openai"])]
    assert (await played("openai", *tried)).text == SAID
    assert (await played("openai", *reversed(tried))).kind == "server_error"


async def test_specialists_answer_is_its_body_whatever_the_variants_format() -> None:
    asked = attrs.evolve(NODE, model="", answer_schema=None)
    answer = await played("openai", RecordedAnswer(status=200, body={"verdict": "deny"}), request=asked)
    assert json.loads(answer.text) == {"verdict": "deny"}
    assert (await played("openai", RecordedAnswer(status=200, body="rubbish"), request=asked)).text == "rubbish"
    assert (await played("openai", RecordedAnswer(status=500, body="exit 3"), request=asked)).kind == "server_error"


def test_formats_are_found_without_a_key_or_a_suite() -> None:
    assert find_answer_reader("scripted") is read_plain_text
    assert find_answer_reader("ollama") is not read_plain_text


# --- hand-written, and not there --------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [{"answer": {"deny": True}, "confidence": 0.9}, {"answer": None}, [1], "text", None])
async def test_hand_written_answer_is_told_as_json(value: Any) -> None:
    heard: list[Emitted] = []
    given = AnswerPlayer({("gate/rm-root", "replay"): {"judge": HandWritten(value)}}, {})
    request = attrs.evolve(NODE, origin=attrs.evolve(ORIGIN, variant="replay"))
    answer = await given.answer(request, heard.append)
    assert json.loads(answer.text) == value
    assert heard == [Responded(status=200), TextDelta(answer.text)]
    assert (given.account, given.size(request), answer.usage) == (PLAYER_NAME, 0, None)


@pytest.mark.parametrize("change", [{"case_id": "gate/other"}, {"variant": "nimble"}, {"node": "guard"}])
async def test_node_without_an_answer_is_not_recorded(change: dict[str, Any]) -> None:
    request = attrs.evolve(NODE, origin=attrs.evolve(ORIGIN, **change))
    with pytest.raises(NotRecorded) as missing:
        await player("openai", RecordedAnswer(status=200, body="x")).answer(request, lambda _item: None)
    assert not isinstance(missing.value, ProviderError)
    assert request.origin.node in str(missing.value)


async def test_node_with_an_empty_list_is_not_recorded() -> None:
    with pytest.raises(NotRecorded):
        await player("openai").answer(NODE, lambda _item: None)


def test_playing_opens_no_socket_and_imports_no_http_client() -> None:
    program = f"""
import sys

def forbid(event, args):
    if event.startswith("socket.") or event in ("subprocess.Popen", "os.fork", "os.exec", "os.posix_spawn"):
        raise SystemExit(f"tried {{event}}")

import anyio
from providers.base import Origin, Request, UserText
from providers.errors import ProviderError
from providers.decisions.player import AnswerPlayer, find_answer_reader
from providers.decisions.answer_log import RecordedAnswer

async def main():
    sys.addaudithook(forbid)
    documents = {DOCUMENTS!r}
    for kind, document in documents.items():
        answers = {{("c", kind): {{"n": [RecordedAnswer(status=200, body=document)]}}}}
        player = AnswerPlayer(answers, {{kind: find_answer_reader(kind)}})
        request = Request(
            origin=Origin(suite_id="s", case_id="c", repetition=0, variant=kind, node="n"), model="m", instructions="",
            messages=(UserText(text="x"),), answer_schema={SCHEMA!r},
        )
        print(kind, (await player.answer(request, lambda item: None)).usage.input)

anyio.run(main)
print("httpx" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [*(f"{kind} 7" for kind in DOCUMENTS), "False"]


# --- taping -----------------------------------------------------------------------------------------------------


class Acting:
    """A provider without a body: it does what it is made with."""

    name = account = "acting"

    def __init__(self, act: Callable[..., Any]) -> None:
        self.act = act

    def size(self, request: Request) -> int:
        return 7

    async def answer(self, request: Request, emit: Callable[..., Any]) -> Answer:
        return await self.act(emit)

    async def aclose(self) -> None:
        pass


async def taken(act: Callable[..., Any]) -> tuple[Answer | ProviderError, RecordedAnswer]:
    tape = AnswerLog()
    provider = AnswerRecorder(Acting(act), tape.keep_answer)
    assert (provider.name, provider.account, provider.size(NODE), provider.quirks.names()) == (
        "acting",
        "acting",
        7,
        (),
    )
    result = await outcome(provider)
    return result, tape.list_answers("gate/rm-root", "jev")["judge"][0]


async def test_answer_that_came_without_a_body_is_taped_by_its_text() -> None:
    async def act(emit: Emit) -> Answer:
        return Answer(text='{"verdict": "deny"}')

    answer, recorded = await taken(act)
    assert recorded == RecordedAnswer(status=200, body={"verdict": "deny"})
    assert json.loads(answer.text) == recorded.body


@pytest.mark.parametrize(
    ("kind", "status", "taped_as"),
    [
        ("server_error", None, 500),
        ("timeout", None, 504),
        ("timeout", 200, 504),
        ("network", None, 500),
        ("auth", None, 401),
        ("rate_limit", 429, 429),
        ("overloaded", 503, 503),
        ("bad_payload", 200, 500),
    ],
)
async def test_error_that_came_without_a_body_is_taped_by_its_status_and_message(
    kind: ErrorKind, status: int | None, taped_as: int
) -> None:
    async def act(emit: Emit) -> None:
        raise ProviderError(kind=kind, message="it broke", retryable=True, status=status)

    error, recorded = await taken(act)
    assert isinstance(error, ProviderError)
    assert error.kind == kind
    assert recorded == RecordedAnswer(status=taped_as, body="it broke") == build_error_answer(error)


async def test_every_try_is_told_and_the_last_one_stays() -> None:
    statuses = iter([503, 200])

    async def script(exchange: Exchange) -> None:
        await exchange.whole(json.dumps(DOCUMENTS["openai"]).encode(), next(statuses))

    told: list[int] = []
    tape = AnswerLog()

    def keep(origin: Origin, recorded: RecordedAnswer) -> None:
        told.append(recorded.status)
        tape.keep_answer(origin, recorded)

    async with serving(script) as server:
        provider = AnswerRecorder(opened("openai", server.url), keep)
        await outcome(provider)
        await outcome(provider)
        await provider.aclose()
    assert told == [503, 200]
    assert tape.list_answers("gate/rm-root", "jev") == {
        "judge": (RecordedAnswer(status=200, body=DOCUMENTS["openai"]),)
    }
    assert tape.list_answers("gate/rm-root", "jev", 1) == tape.list_answers("gate/rm-root", "nimble") == {}


async def test_request_that_is_cut_off_is_taped_as_one_that_came_too_late() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.gone()

    tape = AnswerLog()
    async with serving(script) as server:
        provider = AnswerRecorder(opened("openai", server.url), tape.keep_answer)
        with anyio.move_on_after(0.2) as scope:
            await provider.answer(NODE, lambda _item: None)
        await provider.aclose()
    assert scope.cancelled_caught
    assert tape.list_answers("gate/rm-root", "jev")["judge"] == (RecordedAnswer(status=504, body=TIMEOUT_BODY),)
    assert (await played("openai", RecordedAnswer(status=504, body=TIMEOUT_BODY))).kind == "timeout"


async def test_answer_that_stalls_is_played_as_a_timeout() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.event({"model": "m", "choices": [{"index": 0, "delta": {"content": "a"}}]})
        await exchange.gone()

    tape = AnswerLog()
    async with serving(script) as server:
        provider = AnswerRecorder(opened("openai", server.url, idle_timeout_ms=100), tape.keep_answer)
        live = await outcome(provider)
        await provider.aclose()
    (recorded,) = tape.list_answers("gate/rm-root", "jev")["judge"]
    assert live.kind == (await played("openai", recorded)).kind == "timeout"


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("missing", [0, 9])
async def test_document_whose_connection_broke_is_played_as_no_answer(kind: str, missing: int) -> None:
    body = json.dumps(DOCUMENTS[kind]).encode()

    async def script(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.chunk(body[: len(body) - missing])
        exchange.close()

    live, tape = await taped(kind, script)
    ((recorded,),) = tape.list_answers("gate/rm-root", "jev").values()
    again = await played(kind, recorded)
    assert (live.kind, again.kind, recorded.status) == ("truncated", "server_error", 500)
    assert live.message in again.message


async def test_stream_whose_connection_broke_is_played_as_it_was_taped() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.event({"model": "m", "choices": [{"index": 0, "delta": {"content": "a"}}]})
        exchange.close()

    live, tape = await taped("openai", script)
    ((recorded,),) = tape.list_answers("gate/rm-root", "jev").values()
    again = await played("openai", recorded)
    assert (live.kind, live.text, recorded.status) == (again.kind, again.text, 200) == ("truncated", "a", 200)


async def test_bodies_are_handed_over_only_where_they_are_kept_and_only_to_a_bound() -> None:
    padding = b"/" * (MAX_KEPT_BYTES // 2)
    body = json.dumps(DOCUMENTS["openai"]).encode() + b" " * (MAX_KEPT_BYTES + len(padding))
    async with serving(lambda exchange: exchange.whole(body)) as server:
        heard: dict[bool, list[Emitted]] = {True: [], False: []}
        for keep, items in heard.items():
            provider = find_provider("openai")(ProviderOptions(base_url=server.url, keep_bodies=keep))
            assert (await outcome(provider, emit=items.append)).text == SAID
            await provider.aclose()
    bodies = [item for item in heard[True] if isinstance(item, Body)]
    assert [(item.status, len(item.content)) for item in bodies] == [(200, MAX_KEPT_BYTES)]
    assert not any(isinstance(item, Body) for item in heard[False])
    assert heard[False] == [item for item in heard[True] if not isinstance(item, Body)]


# --- what is kept of a body -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "body"),
    [
        (b'{"a": [1, 2.5, null]}', {"a": [1, 2.5, None]}),
        (b" [1]\n", [1]),
        (b"", ""),
        (b"42", "42"),
        (b'"text"', '"text"'),
        (b"{", "{"),
        (b'{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        (b'{"a": NaN}', '{"a": NaN}'),
        (b'{"a": 1e999}', '{"a": 1e999}'),
        (b'{"a": "\\ud800"}', '{"a": "\\ud800"}'),
        (b"\xef\xbb\xbf{}", "\ufeff{}"),
        (b"a\xff\xfeb", "a\ufffd\ufffdb"),
        (b'{"a": "\xff"}', {"a": "\ufffd"}),
        (b"[" * 95 + b"]" * 95, "[" * 95 + "]" * 95),
    ],
)
def test_body_is_json_only_where_writing_it_anew_loses_nothing(content: bytes, body: Any) -> None:
    recorded = RecordedAnswer.from_content(500, content)
    assert recorded == RecordedAnswer(status=500, body=body)
    assert RecordedAnswer.from_content(500, recorded.content) == recorded
