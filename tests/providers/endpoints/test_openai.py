import gzip
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import attrs
import pytest

from providers.base import (
    Answer,
    AssistantTurn,
    Emitted,
    ReasoningDelta,
    Responded,
    TextDelta,
    ToolAnswer,
    ToolCall,
    ToolSpec,
    UserText,
)
from providers.endpoints.openai import ChatQuirks, OpenAIChat, encode_request, open_provider
from providers.errors import ProviderError
from providers.registry import ProviderOptions
from providers.system.http import HttpPool
from providers.usage import Usage
from store.errors import UsageError
from tests.providers.endpoints.asking import ASKED, KEY, ask, failing
from tests.providers.endpoints.wire import samples
from tests.providers.loopback import Exchange, Loopback, delta, serving

pytestmark = pytest.mark.anyio


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., OpenAIChat]]:
    providers = []

    def make(server: Loopback, **options: Any) -> OpenAIChat:
        usual: dict[str, Any] = {"base_url": server.url, "api_key": KEY, "pool": HttpPool()}
        providers.append(OpenAIChat(**(usual | options)))
        return providers[-1]

    yield make
    for provider in providers:
        await provider.aclose()


# --- the request ------------------------------------------------------------------------------------------------


async def test_request_carries_key_and_idempotency_key_in_headers_only(opened: Callable[..., OpenAIChat]) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.text("hi")

    async with serving(script) as server:
        await ask(opened(server))
    path, headers, body = server.requests[0]
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["idempotency-key"] == ASKED.key
    assert headers["accept"] == "text/event-stream"
    assert headers["content-type"] == "application/json"
    assert ASKED.key.encode() not in body
    assert json.loads(body) == {
        "model": "m-1",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_no_key_sends_no_authorization(opened: Callable[..., OpenAIChat]) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.text("hi")

    async with serving(script) as server:
        await ask(opened(server, api_key=None))
    assert "authorization" not in server.requests[0][1]


async def test_size_is_that_of_the_body_on_the_wire(opened: Callable[..., OpenAIChat]) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.text("hi")

    request = attrs.evolve(ASKED, messages=(UserText(text="naïve 😀"),))
    async with serving(script) as server:
        provider = opened(server)
        await ask(provider, request)
        assert provider.size(request) == len(server.requests[0][2])


async def test_what_is_sent_is_what_was_asked_although_others_were_measured_in_between(
    opened: Callable[..., OpenAIChat],
) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.text("hi")

    one, other = (attrs.evolve(ASKED, messages=(UserText(text=text),)) for text in ("one", "the other"))
    async with serving(script) as server:
        provider = opened(server)
        sizes = [provider.size(one), provider.size(other), provider.size(other)]
        for request in (one, other, one):
            await ask(provider, request)
        assert [len(body) for _, _, body in server.requests] == [sizes[0], sizes[1], sizes[0]]
        assert [json.loads(body)["messages"][-1]["content"] for _, _, body in server.requests] == [
            "one",
            "the other",
            "one",
        ]


def body_of(quirks: ChatQuirks = ChatQuirks(), **changes: Any) -> dict[str, Any]:  # noqa: B008 - a frozen value
    return json.loads(encode_request(attrs.evolve(ASKED, **changes), quirks))


def test_limits_effort_and_tools_are_sent_when_given() -> None:
    body = body_of(
        max_output_tokens=50,
        reasoning_effort="low",
        tools=(ToolSpec(name="f", description="d", input_schema={"type": "object"}),),
        native_tools=({"type": "web_search"},),
    )
    assert (body["max_tokens"], body["reasoning_effort"]) == (50, "low")
    assert body["tools"] == [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},
        {"type": "web_search"},
    ]


def test_turns_with_calls_and_their_answers_go_back_as_they_were() -> None:
    call = ToolCall(id="c1", name="f", arguments={"a": 1}, raw='{"a": 1}')
    messages = body_of(
        instructions="",
        messages=(
            UserText(text="go"),
            AssistantTurn(text="", calls=(call,)),
            ToolAnswer(call_id="c1", name="f", text="42"),
            AssistantTurn(text=""),
        ),
    )["messages"]
    assert messages == [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
        {"role": "assistant", "content": ""},
    ]


@pytest.mark.parametrize(
    ("call", "sent"),
    [
        (ToolCall(id="c", name="f", arguments=None, raw='{"a":', problem="invalid_json"), "{}"),
        (ToolCall(id="c", name="f", arguments={}, raw="null"), "{}"),
        (ToolCall(id="c", name="f", arguments={"a": "é"}), '{"a": "é"}'),
    ],
)
def test_arguments_that_go_back_are_always_a_json_object(call: ToolCall, sent: str) -> None:
    messages = body_of(messages=(AssistantTurn(text="", calls=(call,)),))["messages"]
    assert messages[-1]["tool_calls"][0]["function"]["arguments"] == sent


def test_reasoning_goes_back_with_calls_to_endpoints_that_gave_it_under_that_name() -> None:
    call = ToolCall(id="c", name="f", arguments={})
    marked = {"reasoning_field": "reasoning_content"}
    for calls, continuation, sent in (((call,), marked, "hm"), ((), marked, None), ((call,), None, None)):
        turn = AssistantTurn(text="x", calls=calls, reasoning="hm", continuation=continuation)
        assert body_of(messages=(turn,))["messages"][-1].get("reasoning_content") == sent


def test_lone_surrogates_of_a_model_do_not_stop_the_request() -> None:
    assert body_of(messages=(UserText(text="a\ud800b\x00"),))["messages"][-1]["content"] == "a?b\x00"


# --- answers ----------------------------------------------------------------------------------------------------


async def test_status_and_request_id_are_told_before_the_body_is_there(opened: Callable[..., OpenAIChat]) -> None:
    told = anyio.Event()
    heard: list[Emitted] = []

    def emit(item: Emitted) -> None:
        heard.append(item)
        told.set()

    async def script(exchange: Exchange) -> None:
        await exchange.head(x_request_id="req_1")
        with anyio.fail_after(5):
            await told.wait()
        await exchange.event(delta("hi", "stop"))
        await exchange.event(b"[DONE]")
        await exchange.end()

    async with serving(script) as server:
        answer = await opened(server).answer(ASKED, emit)
    assert heard == [Responded(status=200, provider_request_id="req_1"), TextDelta("hi")]
    assert answer.text == "hi"


@pytest.mark.parametrize("name", ["x-request-id", "request-id", "X-Generation-Id"])
async def test_request_id_is_found_under_every_name_and_cleaned(opened: Callable[..., OpenAIChat], name: str) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole(b"{}", 500, **{name: "req\x7f-9"})

    async with serving(script) as server:
        heard: list[Emitted] = []
        with pytest.raises(ProviderError):
            await opened(server).answer(ASKED, heard.append)
    assert heard == [Responded(status=500, provider_request_id="req -9")]


RECORDED = samples("openai-chat-sse", "openai-chat-json")


@pytest.mark.parametrize("swapped", [False, True], ids=["told", "mislabelled"])
async def test_recorded_answers_come_through_whatever_the_content_type_says(
    opened: Callable[..., OpenAIChat], swapped: bool
) -> None:
    async def script(exchange: Exchange) -> None:
        _, body, document = RECORDED[int(exchange.json["model"])]
        kinds = ["text/event-stream", "application/json"]
        kind = kinds[("json" in document["format"]) != swapped]
        await exchange.whole(body, content_type=kind)

    async with serving(script) as server:
        provider = opened(server)
        for number, (name, _, document) in enumerate(RECORDED):
            expected = document["expected"]
            request = attrs.evolve(ASKED, model=str(number))
            if expected["error"] is not None:
                error = await failing(provider, request)
                assert (error.kind, error.retryable, error.status) == (
                    expected["error"]["kind"],
                    expected["error"]["retryable"],
                    200,
                ), name
            else:
                answer, heard = await ask(provider, request)
                assert "".join(d.text for d in heard if isinstance(d, TextDelta)) == expected["text"], name
                assert "".join(d.text for d in heard if isinstance(d, ReasoningDelta)) == expected["reasoning"], name
                assert (answer.finish, answer.model) == (expected["finish"], expected["model"]), name


async def test_answer_counts_its_tokens(opened: Callable[..., OpenAIChat]) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.event(delta("hi", "stop"))
        await exchange.event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}})
        await exchange.event(b"[DONE]")
        await exchange.end()

    async with serving(script) as server:
        answer, _ = await ask(opened(server))
    assert answer == Answer(
        text="hi", usage=Usage(input=3, output=1), finish="stop", finish_raw="stop", model="m", notes=()
    )


async def test_gzipped_stream_is_read(opened: Callable[..., OpenAIChat]) -> None:
    packed = gzip.compress(b"data: %s\n\ndata: [DONE]\n\n" % json.dumps(delta("hi", "stop")).encode())

    async def script(exchange: Exchange) -> None:
        await exchange.whole(packed, content_encoding="gzip")

    async with serving(script) as server:
        assert (await ask(opened(server)))[0].text == "hi"
    assert server.requests[0][1]["accept-encoding"] == "gzip"


async def test_connection_is_kept_though_reading_stops_at_the_terminal_marker(
    opened: Callable[..., OpenAIChat],
) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.text("hi")

    async with serving(script) as server:
        provider = opened(server)
        for _ in range(3):
            await ask(provider)
    assert server.connections == 1


async def test_endpoint_that_holds_the_connection_after_done_does_not_hold_the_answer(
    opened: Callable[..., OpenAIChat],
) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.event(delta("hi", "stop"))
        await exchange.event(b"[DONE]")
        await exchange.gone()

    async with serving(script) as server:
        with anyio.fail_after(5):
            assert (await ask(opened(server)))[0].text == "hi"


# --- faults -----------------------------------------------------------------------------------------------------


async def test_close_after_the_finish_without_done_is_success(opened: Callable[..., OpenAIChat]) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.text("whole", done=False)
        exchange.close()

    async with serving(script) as server:
        assert (await ask(opened(server)))[0].text == "whole"


async def test_silence_after_the_finish_without_done_is_success(opened: Callable[..., OpenAIChat]) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.text("whole", done=False)
        await exchange.gone()

    async with serving(script) as server:
        assert (await ask(opened(server, idle_s=0.1)))[0].text == "whole"


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_break_before_the_finish_is_truncated_with_what_came(opened: Callable[..., OpenAIChat], how: str) -> None:
    come = anyio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.event(delta("half"))
        with anyio.fail_after(5):
            await come.wait()  # a reset throws away what the other side has not read yet
        getattr(exchange, how)()

    def emit(item: Emitted) -> None:
        if isinstance(item, TextDelta):
            come.set()

    async with serving(script) as server:
        with pytest.raises(ProviderError) as failed:
            await opened(server).answer(ASKED, emit)
    error = failed.value
    assert (error.kind, error.retryable, error.status, error.text) == ("truncated", True, 200, "half")
    assert error.mid_stream


async def test_stall_after_some_deltas_is_a_timeout_with_what_came(opened: Callable[..., OpenAIChat]) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.event(delta("a"))
        await exchange.event(delta("b"))
        await exchange.gone()

    async with serving(script) as server:
        error = await failing(opened(server, idle_s=0.2))
    assert (error.kind, error.retryable, error.text, error.model) == ("timeout", True, "ab", "m")


async def test_no_first_byte_is_a_timeout(opened: Callable[..., OpenAIChat]) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.gone()

    async with serving(script) as server:
        assert (await failing(opened(server, first_byte_s=0.05))).kind == "timeout"


async def test_a_request_bounds_its_first_byte_itself_and_sends_nothing_of_it(
    opened: Callable[..., OpenAIChat],
) -> None:
    impatient = attrs.evolve(ASKED, first_token_timeout_ms=50)

    async def script(exchange: Exchange) -> None:
        await exchange.gone()

    async with serving(script) as server:
        assert str(await failing(opened(server), impatient)).endswith("no answer within 0.05 s")
    assert encode_request(impatient, ChatQuirks()) == encode_request(ASKED, ChatQuirks())


async def test_rate_limit_says_how_long_to_wait(opened: Callable[..., OpenAIChat]) -> None:
    async def script(exchange: Exchange) -> None:
        body = b'{"error": {"message": "slow down", "code": "rate_limit_exceeded"}}'
        await exchange.whole(body, 429, retry_after="2", retry_after_ms="1500")

    async with serving(script) as server:
        error = await failing(opened(server))
    assert (error.kind, error.status, error.retry_after_s, error.retryable) == ("rate_limit", 429, 1.5, True)


async def test_redirect_is_an_error_and_the_key_stays(opened: Callable[..., OpenAIChat]) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole(b"", 301, location="http://127.0.0.1:1/v1")

    async with serving(script) as server:
        error = await failing(opened(server))
    assert (error.kind, error.status, error.retryable) == ("invalid_request", 301, False)
    assert len(server.requests) == 1


async def test_refusal_whose_body_breaks_off_is_still_that_refusal(opened: Callable[..., OpenAIChat]) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.head(503)
        await exchange.chunk(b"<html>busy")
        exchange.close()

    async with serving(script) as server:
        error = await failing(opened(server))
    assert (error.kind, error.status, error.retryable) == ("server_error", 503, True)


async def test_key_echoed_by_the_endpoint_is_masked(opened: Callable[..., OpenAIChat]) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole(json.dumps({"error": {"message": f"bad key: {KEY}"}}).encode(), 401)

    async with serving(script) as server:
        error = await failing(opened(server))
    assert (error.kind, error.message) == ("auth", "bad key: [redacted:credential]")


async def test_cancellation_in_mid_stream_closes_the_socket_at_once(opened: Callable[..., OpenAIChat]) -> None:
    closed = anyio.Event()

    async def script(exchange: Exchange) -> None:
        await exchange.head()
        await exchange.event(delta("a"))
        await exchange.gone()
        closed.set()

    async with serving(script) as server:
        provider = opened(server)
        async with anyio.create_task_group() as group:

            def emit(item: Emitted) -> None:
                if isinstance(item, TextDelta):
                    group.cancel_scope.cancel()

            group.start_soon(provider.answer, ASKED, emit)
        with anyio.fail_after(1):
            await closed.wait()


# --- quirks -----------------------------------------------------------------------------------------------------


def picky(*fields: str) -> Callable[..., Any]:
    """An endpoint that refuses fields, the first that it finds."""

    async def script(exchange: Exchange) -> None:
        for field in fields:
            if field in exchange.json:
                error = {"message": f"Unsupported parameter: '{field}'", "code": "unsupported_parameter"}
                await exchange.whole(json.dumps({"error": error}).encode(), 400)
                return
        await exchange.text("hi")

    return script


async def test_refused_fields_are_left_out_after_one_refusal_each(opened: Callable[..., OpenAIChat]) -> None:
    request = attrs.evolve(ASKED, max_output_tokens=9)
    async with serving(picky("stream_options", "max_tokens")) as server:
        provider = opened(server)
        for _ in range(2):
            error = await failing(provider, request)
            assert (error.kind, error.retryable, error.status) == ("invalid_request", True, 400)
        assert (await ask(provider, request))[0].text == "hi"
        assert (await ask(provider, request))[0].text == "hi"
    assert provider.quirks.names() == ("no_stream_options", "max_completion_tokens")
    last = json.loads(server.requests[-1][2])
    assert last["max_completion_tokens"] == 9
    assert "max_tokens" not in last
    assert "stream_options" not in last


async def test_refusal_of_the_replacement_too_is_final(opened: Callable[..., OpenAIChat]) -> None:
    request = attrs.evolve(ASKED, max_output_tokens=9)
    async with serving(picky("max_tokens", "max_completion_tokens")) as server:
        provider = opened(server)
        assert (await failing(provider, request)).retryable
        assert not (await failing(provider, request)).retryable
        assert not (await failing(provider, request)).retryable


async def test_requests_in_flight_together_are_all_tried_again_and_learn_once(
    opened: Callable[..., OpenAIChat],
) -> None:
    everyone = anyio.Event()
    refuse = picky("stream_options")

    async def script(exchange: Exchange) -> None:
        if exchange.server.open == 5:
            everyone.set()
        with anyio.fail_after(5):
            await everyone.wait()
        await refuse(exchange)

    async with serving(script) as server:
        provider = opened(server)
        errors = []

        async def one() -> None:
            errors.append(await failing(provider))

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(one)
        assert [error.retryable for error in errors] == [True] * 5
        assert (await ask(provider))[0].text == "hi"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"message": "max_tokens is too large: 999", "code": "invalid_value", "param": "max_tokens"}),
        (400, {"message": "'max_tokens' is too large; this model's maximum context length is 5"}),
        (500, {"message": "stream_options unsupported"}),
        (400, {"message": "something else is unsupported"}),
    ],
)
async def test_refusal_of_a_value_teaches_nothing(
    opened: Callable[..., OpenAIChat], status: int, error: dict[str, Any]
) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole(json.dumps({"error": error}).encode(), status)

    async with serving(script) as server:
        provider = opened(server)
        refused = await failing(provider, attrs.evolve(ASKED, max_output_tokens=999))
    assert provider.quirks == ChatQuirks()
    assert refused.retryable is (status == 500)


# --- the provider -----------------------------------------------------------------------------------------------


def test_account_tells_endpoint_and_key_apart_and_shows_neither_key_nor_query() -> None:
    def account(url: str, key: str | None) -> str:
        return open_provider(ProviderOptions(base_url=url, api_key=key)).account

    one = account("https://h.example/v1/?api-version=2", KEY)
    assert one.startswith("https://h.example/v1#")
    assert len(one.partition("#")[2]) == 8
    assert one != account("https://h.example/v1", KEY + "x")
    assert account("https://h.example/v1", None) == "https://h.example/v1#nokey"
    assert KEY not in one


def test_query_of_the_base_url_stays_behind_the_path() -> None:
    provider = open_provider(ProviderOptions(base_url="https://h/v1?api-version=2"))
    assert provider._url == "https://h/v1/chat/completions?api-version=2"


@pytest.mark.parametrize("key", ["", "sk-a\nb", "sk-ü", "sk-a\x00"])
def test_key_that_no_header_can_carry_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(UsageError) as refused:
        open_provider(ProviderOptions(base_url="http://h/v1", api_key=key))
    assert "sk-" not in str(refused.value)


def test_repr_shows_no_key() -> None:
    provider = open_provider(ProviderOptions(base_url="http://h/v1", api_key=KEY))
    assert KEY not in repr(provider)
    assert provider.name == "openai"
