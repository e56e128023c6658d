import json
from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.base import AssistantTurn, Responded, ToolAnswer, ToolCall, UserText
from providers.endpoints.anthropic import DEFAULT_MAX_TOKENS, AnthropicMessages, encode_request, open_provider
from providers.registry import ProviderOptions
from providers.usage import Usage
from tests.providers.endpoints.asking import ASKED, KEY, TOOL, ask, failing
from tests.providers.endpoints.wire import FOLDER
from tests.providers.loopback import Exchange, serving

pytestmark = pytest.mark.anyio
CALLS = (ToolCall(id="t1", name="f", arguments={"a": 1}, raw='{"a": 1}'), ToolCall(id="t2", name="g", arguments={}))
USES = [
    {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
    {"type": "tool_use", "id": "t2", "name": "g", "input": {}},
]


def opened(url: str, key: str | None = KEY) -> AnthropicMessages:
    return open_provider(ProviderOptions(base_url=url, api_key=key))


def body_of(**changes: Any) -> dict[str, Any]:
    return json.loads(encode_request(attrs.evolve(ASKED, **changes)))


def messages_of(*messages: AssistantTurn | ToolAnswer | UserText) -> list[tuple[str, list[dict[Any, Any]]]]:
    return [(m["role"], m["content"]) for m in body_of(messages=messages)["messages"]]


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


# --- the request ------------------------------------------------------------------------------------------------


async def test_request_carries_version_and_key_in_headers_of_their_own() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole((FOLDER / "030-anthropic-spaces-in-json.sse").read_bytes(), request_id="req_1")

    async with serving(script) as server:
        provider = opened(server.url)
        answer, heard = await ask(provider)
        assert provider.size(ASKED) == len(server.requests[0][2])
        await provider.aclose()
    path, headers, body = server.requests[0]
    assert path == "/v1/messages"
    assert (headers["anthropic-version"], headers["x-api-key"]) == ("2023-06-01", KEY)
    assert "authorization" not in headers
    assert headers["idempotency-key"] == ASKED.key
    assert json.loads(body) == {
        "model": "m-1",
        "max_tokens": DEFAULT_MAX_TOKENS,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": [text("Hello")]}],
        "stream": True,
    }
    assert heard[0] == Responded(status=200, provider_request_id="req_1")
    assert (answer.text, answer.usage) == ("2", Usage(input=20, output=5, cached=0, cache_write=0))


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://h", "https://h/v1/messages"),
        ("https://h/v1", "https://h/v1/messages"),
        ("https://h/proxy/", "https://h/proxy/v1/messages"),
        ("https://h/v1?beta=true", "https://h/v1/messages?beta=true"),
    ],
)
def test_base_url_may_hold_the_version_or_not(base: str, url: str) -> None:
    assert opened(base)._url == url


def test_without_a_key_none_is_sent() -> None:
    assert opened("http://h", None).make_headers(None) == {"anthropic-version": "2023-06-01"}


def test_limits_and_tools_are_sent_when_given() -> None:
    body = body_of(max_output_tokens=50, tools=(TOOL,), native_tools=({"type": "web_search_20250305"},))
    assert body["max_tokens"] == 50
    assert body["tools"] == [
        {"name": "f", "description": "d", "input_schema": {"type": "object"}},
        {"type": "web_search_20250305"},
    ]


@pytest.mark.parametrize(
    ("effort", "sent"),
    [
        (None, {"max_tokens": DEFAULT_MAX_TOKENS}),
        (
            "high",
            {
                "max_tokens": DEFAULT_MAX_TOKENS,
                "thinking": {"type": "adaptive"},
                "output_config": {"effort": "high"},
            },
        ),
        (
            "2048",
            {"max_tokens": 2048 + DEFAULT_MAX_TOKENS, "thinking": {"type": "enabled", "budget_tokens": 2048}},
        ),
        ("none", {"max_tokens": DEFAULT_MAX_TOKENS, "thinking": {"type": "disabled"}}),
    ],
)
def test_effort_is_a_word_or_a_budget(effort: str | None, sent: dict[str, Any]) -> None:
    body = body_of(reasoning_effort=effort)
    assert {name: body[name] for name in ("max_tokens", "thinking", "output_config") if name in body} == sent


# --- the conversation -------------------------------------------------------------------------------------------


def test_results_come_first_in_the_next_user_message_one_for_each_call_in_its_order() -> None:
    assert messages_of(
        UserText(text="go"),
        AssistantTurn(text="I will.", calls=CALLS),
        UserText(text="hurry"),
        ToolAnswer(call_id="t2", name="g", text="no", is_error=True),
        ToolAnswer(call_id="t1", name="f", text="42"),
        UserText(text="please"),
    ) == [
        ("user", [text("go")]),
        ("assistant", [text("I will."), *USES]),
        (
            "user",
            [
                {"type": "tool_result", "tool_use_id": "t1", "content": "42"},
                {"type": "tool_result", "tool_use_id": "t2", "content": "no", "is_error": True},
                text("hurry"),
                text("please"),
            ],
        ),
    ]


def test_call_that_was_not_answered_gets_a_result_that_says_so() -> None:
    _, _, (role, blocks) = messages_of(
        UserText(text="go"), AssistantTurn(text="", calls=CALLS), ToolAnswer(call_id="t1", name="f", text="")
    )
    assert role == "user"
    assert blocks[0] == {"type": "tool_result", "tool_use_id": "t1"}
    assert blocks[1] == {
        "type": "tool_result",
        "tool_use_id": "t2",
        "content": "This call was not run.",
        "is_error": True,
    }


def test_result_whose_call_is_gone_is_told_as_text() -> None:
    assert messages_of(UserText(text="go"), ToolAnswer(call_id="old", name="f", text="42")) == [
        ("user", [text("go"), text("Result of f:\n42")])
    ]


def test_messages_of_one_role_in_a_row_become_one() -> None:
    assert messages_of(
        UserText(text="a"),
        UserText(text="b"),
        AssistantTurn(text="c"),
        AssistantTurn(text="d"),
        UserText(text=" \n"),
        AssistantTurn(text=""),
    ) == [("user", [text("a"), text("b")]), ("assistant", [text("c"), text("d")])]


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig"}
HIDDEN = {"type": "redacted_thinking", "data": "xxx"}


def test_thinking_goes_back_unchanged_in_its_place() -> None:
    kept = {"blocks": [THOUGHT, text("a"), {"type": "call"}, HIDDEN, text("b"), {"type": "call"}]}
    turn = AssistantTurn(text="ab", calls=CALLS, reasoning="hm", continuation=kept)
    assert messages_of(turn)[0][1] == [THOUGHT, text("a"), USES[0], HIDDEN, text("b"), USES[1]]


def test_turn_that_was_shortened_keeps_its_thinking_first() -> None:
    kept = {"blocks": [text("a"), THOUGHT, {"type": "call"}, HIDDEN]}
    assert messages_of(AssistantTurn(text="…", calls=CALLS, continuation=kept))[0][1] == [
        THOUGHT,
        HIDDEN,
        text("…"),
        *USES,
    ]


def test_paused_turn_goes_back_as_the_last_message() -> None:
    kept = {"blocks": [text("a"), {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]}
    turn = AssistantTurn(text="a", continuation=kept)
    assert messages_of(UserText(text="go"), turn)[-1] == ("assistant", kept["blocks"])


@pytest.mark.parametrize("continuation", ["x", {"blocks": 1}, {"blocks": ["x", {"type": []}]}, {"items": []}])
def test_continuation_of_another_provider_does_no_harm(continuation: dict[str, Any] | str) -> None:
    turn = AssistantTurn(text="a", calls=CALLS, continuation=continuation)
    assert messages_of(turn)[0][1] == [text("a"), *USES]


@given(
    st.lists(
        st.one_of(
            st.builds(UserText, text=st.sampled_from(["", "x"])),
            st.builds(
                AssistantTurn,
                text=st.sampled_from(["", "y"]),
                calls=st.sampled_from([(), CALLS[:1], CALLS]),
            ),
            st.builds(ToolAnswer, call_id=st.sampled_from(["t1", "t2", "t3"]), name=st.just("f"), text=st.just("z")),
        ),
        max_size=8,
    )
)
def test_any_conversation_alternates_and_answers_every_call_once(
    messages: list[AssistantTurn | ToolAnswer | UserText],
) -> None:
    written = messages_of(*messages)
    for (role, blocks), (next_role, next_blocks) in pairwise(written):
        assert role != next_role
        uses = [b["id"] for b in blocks if b["type"] == "tool_use"]
        results = [b["tool_use_id"] for b in next_blocks if b["type"] == "tool_result"]
        assert results == uses
        assert [b["type"] for b in next_blocks[: len(uses)]] == ["tool_result"] * len(uses)
    assert all(blocks for _, blocks in written)


# --- faults -----------------------------------------------------------------------------------------------------


async def test_overload_in_mid_stream_is_retryable_and_keeps_what_it_cost() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole((FOLDER / "062-anthropic-overloaded-mid-stream.sse").read_bytes())

    async with serving(script) as server:
        provider = opened(server.url)
        error = await failing(provider)
        await provider.aclose()
    assert (error.kind, error.retryable, error.status, error.mid_stream) == ("overloaded", True, 200, True)
    assert error.usage == Usage(input=118, output=1, cached=100, cache_write=7)


async def test_document_though_a_stream_was_asked_for_is_read() -> None:
    document = {"type": "message", "content": [text("hi")], "stop_reason": "end_turn", "model": "m"}

    async def script(exchange: Exchange) -> None:
        await exchange.whole(json.dumps(document).encode(), content_type="application/json")

    async with serving(script) as server:
        provider = opened(server.url)
        answer, _ = await ask(provider)
        await provider.aclose()
    assert (answer.text, answer.finish, answer.notes) == ("hi", "stop", ("usage_unreported",))


async def test_refusal_of_a_measured_setting_is_final_and_teaches_nothing() -> None:
    async def script(exchange: Exchange) -> None:
        error = {"type": "invalid_request_error", "message": "adaptive thinking is not supported on this model"}
        await exchange.whole(json.dumps({"type": "error", "error": error}).encode(), 400)

    async with serving(script) as server:
        provider = opened(server.url)
        error = await failing(provider, attrs.evolve(ASKED, reasoning_effort="high"))
        await provider.aclose()
    assert (error.kind, error.retryable, provider.quirks.names()) == ("invalid_request", False, ())
