import json
from typing import Any

import attrs
import pytest

from providers.base import AssistantTurn, Request, ToolAnswer, ToolCall, UserText
from providers.endpoints.ollama import (
    MAX_CONTEXT_TOKENS,
    MIN_CONTEXT_TOKENS,
    OllamaChat,
    choose_context_size,
    encode_request,
    find_first_call_number,
    open_provider,
)
from providers.registry import ProviderOptions
from providers.usage import Usage
from tests.providers.endpoints.asking import ASKED, KEY, TOOL, ask, failing
from tests.providers.endpoints.wire import FOLDER
from tests.providers.loopback import Exchange, serving

pytestmark = pytest.mark.anyio
LONG = attrs.evolve(ASKED, messages=(UserText(text="x" * 60_000),))


def opened(url: str, key: str | None = None) -> OllamaChat:
    return open_provider(ProviderOptions(base_url=url, api_key=key))


def body_of(**changes: Any) -> dict[str, Any]:
    return json.loads(encode_request(attrs.evolve(ASKED, **changes), 8192))


# --- the request ------------------------------------------------------------------------------------------------


async def test_request_names_its_context_and_asks_for_no_silent_cut() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole((FOLDER / "047-ollama-tool-call.ndjson").read_bytes())

    async with serving(script) as server:
        provider = opened(server.url.removesuffix("/v1"), KEY)
        answer, _ = await ask(provider)
        assert provider.size(ASKED) == len(server.requests[0][2])
        await provider.aclose()
    path, headers, body = server.requests[0]
    assert path == "/api/chat"
    assert (headers["accept"], headers["authorization"]) == ("application/x-ndjson", f"Bearer {KEY}")
    assert json.loads(body) == {
        "model": "m-1",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
        "stream": True,
        "truncate": False,
        "shift": False,
        "options": {"num_ctx": MIN_CONTEXT_TOKENS},
    }
    assert [(c.id, c.arguments) for c in answer.calls] == [("call_1", {"city": "Tokyo"})]
    assert answer.usage == Usage(input=169, output=15)


@pytest.mark.parametrize("base", ["http://h:11434", "http://h:11434/", "http://h:11434/api"])
def test_base_url_may_hold_the_root_or_not(base: str) -> None:
    assert opened(base)._url == "http://h:11434/api/chat"


def test_own_server_is_the_default() -> None:
    assert open_provider(ProviderOptions()).account == "http://127.0.0.1:11434#nokey"


def test_limits_and_tools_are_sent_when_given() -> None:
    body = body_of(max_output_tokens=50, tools=(TOOL,), native_tools=({"type": "x"},))
    assert body["options"]["num_predict"] == 50
    assert body["tools"] == [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},
        {"type": "x"},
    ]


@pytest.mark.parametrize(("effort", "sent"), [("high", "high"), ("none", False), ("on", True)])
def test_effort_is_a_level_or_a_switch(effort: str, sent: bool | str) -> None:
    assert body_of(reasoning_effort=effort)["think"] == sent


def test_without_an_effort_nothing_is_said_about_thinking() -> None:
    assert "think" not in body_of()


def test_context_holds_request_and_answer_and_grows_in_few_steps() -> None:
    assert choose_context_size(ASKED) == MIN_CONTEXT_TOKENS
    assert choose_context_size(LONG) == 65_536
    assert choose_context_size(attrs.evolve(ASKED, max_output_tokens=20_000)) == 32_768
    assert choose_context_size(attrs.evolve(LONG, messages=LONG.messages * 20)) == MAX_CONTEXT_TOKENS


def test_context_does_not_shrink_again_for_the_same_model() -> None:
    provider = opened("http://h")

    def asked(request: Request) -> int:
        return json.loads(provider.encode_request(request, provider.quirks))["options"]["num_ctx"]

    other = attrs.evolve(ASKED, model="m-2")
    assert [asked(ASKED), asked(LONG), asked(ASKED), asked(other)] == [
        MIN_CONTEXT_TOKENS,
        65_536,
        65_536,
        MIN_CONTEXT_TOKENS,
    ]


# --- the conversation -------------------------------------------------------------------------------------------


def test_calls_go_back_as_objects_with_the_thinking_that_led_to_them() -> None:
    call = ToolCall(id="call_1", name="f", arguments={"a": 1}, raw='{"a": 1}')
    messages = body_of(
        instructions="",
        messages=(
            UserText(text="go"),
            AssistantTurn(text="", calls=(call,), reasoning="hm"),
            ToolAnswer(call_id="call_1", name="f", text="42"),
            AssistantTurn(text="done", reasoning="hm"),
        ),
    )["messages"]
    assert messages == [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "call_1", "function": {"name": "f", "arguments": {"a": 1}}}],
            "thinking": "hm",
        },
        {"role": "tool", "tool_name": "f", "tool_call_id": "call_1", "content": "42"},
        {"role": "assistant", "content": "done"},
    ]


def test_ids_are_never_given_twice_in_a_conversation() -> None:
    def turn(*ids: str) -> AssistantTurn:
        return AssistantTurn(text="", calls=tuple(ToolCall(id=i, name="f", arguments={}) for i in ids))

    assert find_first_call_number(ASKED) == 1
    assert (
        find_first_call_number(attrs.evolve(ASKED, messages=(turn("call_2", "call_x"), turn("call_7"), turn("other"))))
        == 8
    )


async def test_second_turns_calls_are_numbered_on() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole((FOLDER / "047-ollama-tool-call.ndjson").read_bytes())

    async with serving(script) as server:
        provider = opened(server.url.removesuffix("/v1"))
        first, _ = await ask(provider)
        again = attrs.evolve(ASKED, messages=(*ASKED.messages, AssistantTurn(text="", calls=first.calls)))
        second, _ = await ask(provider, again)
        await provider.aclose()
    assert [first.calls[0].id, second.calls[0].id] == ["call_1", "call_2"]


# --- faults -----------------------------------------------------------------------------------------------------


async def test_error_line_in_mid_stream_is_an_error() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole(b'{"model":"m","message":{"content":"a"},"done":false}\n{"error":"boom"}\n')

    async with serving(script) as server:
        provider = opened(server.url)
        error = await failing(provider)
        await provider.aclose()
    assert (error.kind, error.retryable, error.status, error.text) == ("server_error", True, 200, "a")


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (404, "model 'm-1' not found", "model_not_found"),
        (400, "the input length exceeds the context length", "context_length"),
        (400, '"m-1" does not support thinking', "invalid_request"),
    ],
)
async def test_refusal_is_told_from_its_sentence(status: int, message: str, kind: str) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole(json.dumps({"error": message}).encode(), status)

    async with serving(script) as server:
        provider = opened(server.url)
        error = await failing(provider)
        await provider.aclose()
    assert (error.kind, error.retryable) == (kind, False)
