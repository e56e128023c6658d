import json
from typing import Any

import attrs
import pytest

from providers.base import AssistantTurn, Responded, ToolAnswer, ToolCall, UserText, quirks_of
from providers.endpoints.responses import OpenAIResponses, ResponsesQuirks, encode_request, open_provider
from providers.registry import ProviderOptions
from providers.usage import Usage
from tests.providers.endpoints.asking import ASKED, KEY, TOOL, ask, failing
from tests.providers.endpoints.wire import FOLDER
from tests.providers.loopback import Exchange, serving

pytestmark = pytest.mark.anyio
CALL = ToolCall(id="c1", name="f", arguments={"a": 1}, raw='{"a": 1}')
WRITTEN = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'}
THOUGHT = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gAAA"}


def opened(url: str) -> OpenAIResponses:
    return open_provider(ProviderOptions(base_url=url, api_key=KEY))


def body_of(quirks: ResponsesQuirks = ResponsesQuirks(), **changes: Any) -> dict[str, Any]:  # noqa: B008 - a frozen value
    return json.loads(encode_request(attrs.evolve(ASKED, **changes), quirks))


def items_of(*messages: AssistantTurn | ToolAnswer | UserText) -> list[dict[str, Any]]:
    return body_of(messages=messages)["input"]


def said(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}], "phase": "x"}


# --- the request ------------------------------------------------------------------------------------------------


async def test_request_stores_nothing_and_asks_for_reasoning_it_can_send_back() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole((FOLDER / "041-responses-function-call.sse").read_bytes(), x_request_id="req_1")

    async with serving(script) as server:
        provider = opened(server.url)
        answer, heard = await ask(provider)
        await provider.aclose()
    path, headers, body = server.requests[0]
    assert path == "/v1/responses"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["idempotency-key"] == ASKED.key
    assert json.loads(body) == {
        "model": "m-1",
        "instructions": "Be brief.",
        "input": [{"type": "message", "role": "user", "content": "Hello"}],
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "stream": True,
    }
    assert heard[0] == Responded(status=200, provider_request_id="req_1")
    assert answer.usage == Usage(input=255, output=16, cached=0, reasoning=0)


def test_limits_effort_and_tools_are_sent_when_given() -> None:
    body = body_of(max_output_tokens=50, reasoning_effort="low", tools=(TOOL,), native_tools=({"type": "web_search"},))
    assert (body["max_output_tokens"], body["reasoning"]) == (50, {"effort": "low"})
    assert body["tools"] == [
        {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": False},
        {"type": "web_search"},
    ]


# --- the conversation -------------------------------------------------------------------------------------------


def test_turns_with_calls_and_their_answers_go_back_as_items() -> None:
    assert items_of(
        UserText(text="go"),
        AssistantTurn(text="I will.", calls=(CALL,)),
        ToolAnswer(call_id="c1", name="f", text="42"),
        AssistantTurn(text=""),
    ) == [
        {"type": "message", "role": "user", "content": "go"},
        {"type": "message", "role": "assistant", "content": "I will."},
        WRITTEN,
        {"type": "function_call_output", "call_id": "c1", "output": "42"},
    ]


def test_reasoning_goes_back_unchanged_in_its_place() -> None:
    kept = {"items": [THOUGHT, said("a"), {"type": "call"}]}
    assert items_of(AssistantTurn(text="a", calls=(CALL,), continuation=kept)) == [THOUGHT, said("a"), WRITTEN]


def test_turn_that_was_shortened_goes_back_without_its_reasoning() -> None:
    kept = {"items": [THOUGHT, said("a long text"), {"type": "call"}]}
    assert items_of(AssistantTurn(text="…", calls=(CALL,), continuation=kept)) == [
        {"type": "message", "role": "assistant", "content": "…"},
        WRITTEN,
    ]


@pytest.mark.parametrize(
    "continuation", ["x", {"items": 1}, {"items": ["x", {"type": "message", "content": [1, {"type": []}]}]}, {}]
)
def test_continuation_of_another_provider_does_no_harm(continuation: dict[str, Any] | str) -> None:
    turn = AssistantTurn(text="a", calls=(CALL,), continuation=continuation)
    assert items_of(turn) == [{"type": "message", "role": "assistant", "content": "a"}, WRITTEN]


# --- faults -----------------------------------------------------------------------------------------------------


async def test_model_that_does_not_reason_is_asked_without_reasoning_after_one_refusal() -> None:
    async def script(exchange: Exchange) -> None:
        if "include" in exchange.json:
            error = {
                "message": "Encrypted content is not supported with this model.",
                "type": "invalid_request_error",
                "param": "include",
            }
            await exchange.whole(json.dumps({"error": error}).encode(), 400)
        else:
            await exchange.whole((FOLDER / "041-responses-function-call.sse").read_bytes())

    async with serving(script) as server:
        provider = opened(server.url)
        error = await failing(provider)
        assert (error.kind, error.retryable) == ("invalid_request", True)
        assert (await ask(provider))[0].finish == "tool_calls"
        assert quirks_of(provider) == ("no_encrypted_reasoning",)
        await provider.aclose()


async def test_model_that_is_not_there_is_said_with_status_400() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole((FOLDER / "067-err-400-responses-model.json").read_bytes(), 400)

    async with serving(script) as server:
        provider = opened(server.url)
        error = await failing(provider)
        await provider.aclose()
    assert (error.kind, error.status, error.retryable) == ("model_not_found", 400, False)
    assert quirks_of(provider) == ()


async def test_empty_purse_inside_a_good_status_is_final() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole((FOLDER / "044-responses-error-then-failed.sse").read_bytes())

    async with serving(script) as server:
        provider = opened(server.url)
        error = await failing(provider)
        await provider.aclose()
    assert (error.kind, error.status, error.retryable) == ("quota", 200, False)
