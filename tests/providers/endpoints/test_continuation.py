"""Tests that everything that came with a turn goes back with the next request, in every format."""

import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from providers.base import Answer, AssistantTurn, Request, ToolAnswer, UserText
from providers.endpoints import anthropic, ollama, openai, responses
from providers.endpoints.anthropic_stream import MessageStream
from providers.endpoints.ollama_stream import OllamaStream
from providers.endpoints.openai_stream import ChatStream
from providers.endpoints.reader import AnswerReader
from providers.endpoints.responses_stream import ResponseStream
from tests.providers.endpoints.asking import ASKED
from tests.providers.endpoints.wire import answer_of, samples

Encode = Callable[[Request], bytes]
FORMATS: dict[str, tuple[type[AnswerReader], Encode]] = {
    "openai-chat-sse": (ChatStream, lambda request: openai.encode_request(request, openai.ChatQuirks())),
    "anthropic-sse": (MessageStream, anthropic.encode_request),
    "openai-responses-sse": (
        ResponseStream,
        lambda request: responses.encode_request(request, responses.ResponsesQuirks()),
    ),
    "ollama-chat-ndjson": (OllamaStream, lambda request: ollama.encode_request(request, 4096)),
}
HOLDING = [sample for sample in samples(*FORMATS) if "next_request_holds" in sample[2]]


def next_request(answer: Answer, **turn: Any) -> Request:
    """The request after *answer*, whose calls have been answered."""
    said = AssistantTurn(
        text=answer.text, calls=answer.calls, reasoning=answer.reasoning, continuation=answer.continuation
    )
    results = [ToolAnswer(call_id=call.id, name=call.name, text="done") for call in answer.calls]
    return attrs.evolve(ASKED, messages=(UserText(text="x"), attrs.evolve(said, **turn), *results))


def sse(*events: dict[str, Any]) -> bytes:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()


def chat(*deltas: dict[str, Any]) -> Answer:
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    return answer_of(ChatStream, sse(*chunks, {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}))


def chat_turn(answer: Answer, *, bare: bool = False) -> dict[str, Any]:
    body = openai.encode_request(next_request(answer), openai.ChatQuirks(bare_turns=bare))
    turn: dict[str, Any] = json.loads(body)["messages"][2]
    return turn


def call(**fields: Any) -> dict[str, Any]:
    return {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}, **fields}


@pytest.mark.parametrize(("name", "body", "document"), HOLDING, ids=[name for name, _, _ in HOLDING])
def test_recorded_answer_goes_back_with_what_came_with_it(name: str, body: bytes, document: dict[str, Any]) -> None:
    reader, encode = FORMATS[document["format"]]
    sent = encode(next_request(answer_of(reader, body))).decode()
    for held in document["next_request_holds"]:
        assert held in sent, name


# --- chat completions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "extra",
    [
        {"extra_content": {"google": {"thought_signature": "S"}}},
        {"thought_signature": "S"},
        {"provider_specific_fields": {"thought_signature": "S"}},
        {"cache_control": {"type": "ephemeral"}},
        {"anything": [1, {"a": None}]},
    ],
)
def test_fields_of_a_call_go_back_with_it(extra: dict[str, Any]) -> None:
    (sent,) = chat_turn(chat({"tool_calls": [call(**extra)]}))["tool_calls"]
    assert sent == {k: v for k, v in call(**extra).items() if k != "index"}


def test_fields_of_a_function_and_those_that_come_late_go_back() -> None:
    first = call(extra_content={"google": {"a": 1}})
    first["function"]["strict_id"] = "s"
    (sent,) = chat_turn(chat({"tool_calls": [first]}, {"tool_calls": [{"index": 0, "extra_content": {"b": 2}}]}))[
        "tool_calls"
    ]
    assert sent["extra_content"] == {"google": {"a": 1}, "b": 2}
    assert sent["function"]["strict_id"] == "s"


def test_each_call_keeps_its_own_fields() -> None:
    answer = chat({"tool_calls": [call(x=1), call(index=1, id="d"), call(index=2, id="e", x=3)]})
    assert [sent.get("x") for sent in chat_turn(answer)["tool_calls"]] == [1, None, 3]


def test_reasoning_details_in_pieces_go_back_as_whole_entries() -> None:
    def detail(**fields: Any) -> dict[str, Any]:
        return {"reasoning_details": [{"index": 0, **fields}]}

    answer = chat(
        detail(type="reasoning.text", text="a", format="f"),
        detail(type="reasoning.text", text="b"),
        detail(type="reasoning.text", signature="S"),
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "D", "id": "r1", "index": 1}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "E", "id": "r2", "index": 1}]},
        {"tool_calls": [call()]},
    )
    assert chat_turn(answer)["reasoning_details"] == [
        {"index": 0, "type": "reasoning.text", "text": "ab", "format": "f", "signature": "S"},
        {"type": "reasoning.encrypted", "data": "D", "id": "r1", "index": 1},
        {"type": "reasoning.encrypted", "data": "E", "id": "r2", "index": 1},
    ]


def test_known_and_empty_fields_are_no_extras() -> None:
    answer = chat({"role": "assistant", "content": "a", "refusal": None, "annotations": [], "x": None, "y": ""})
    assert answer.continuation is None


def test_endpoint_that_refuses_the_fields_gets_bare_turns() -> None:
    answer = chat({"reasoning_details": [{"type": "t"}], "tool_calls": [call(extra_content={"a": 1})]})
    refused = openai.ChatQuirks().learn_from_words("unknown field: extra_content", next_request(answer), refused=True)
    assert refused == openai.ChatQuirks(bare_turns=True)
    turn = chat_turn(answer, bare=True)
    assert turn.keys() == {"role", "content", "tool_calls"}
    assert turn["tool_calls"][0].keys() == {"id", "type", "function"}
    assert openai.ChatQuirks().learn_from_words("unknown field: extra_content", ASKED, refused=True).names() == ()


@pytest.mark.parametrize("kept", [1, [], {"calls": 1}, {"calls": [1]}, {"calls": [{}, {}]}, {"message": []}])
def test_damaged_continuation_is_left_out(kept: Any) -> None:
    answer = attrs.evolve(chat({"tool_calls": [call()]}), continuation=kept)
    assert chat_turn(answer)["tool_calls"] == [{k: v for k, v in call().items() if k != "index"}]


def test_custom_call_goes_back_as_one() -> None:
    given = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}
    (sent,) = chat_turn(chat({"tool_calls": [given]}))["tool_calls"]
    assert sent == {"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}


# --- the other formats ------------------------------------------------------------------------------------------


def test_fields_of_anthropics_call_go_back_with_it() -> None:
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}, "caller": {"type": "direct"}}
    body = {"type": "message", "content": [{"type": "text", "text": "a"}, block], "stop_reason": "tool_use"}
    sent = json.loads(anthropic.encode_request(next_request(answer_of(MessageStream, json.dumps(body).encode()))))
    assert sent["messages"][1]["content"] == [{"type": "text", "text": "a"}, block]


def test_fields_of_ollamas_call_go_back_with_it() -> None:
    given = {"id": "c", "function": {"name": "f", "arguments": {"a": 1}, "thought": "S"}, "signature": "T"}
    body = {"model": "m", "message": {"content": "", "tool_calls": [given]}, "done": True, "done_reason": "stop"}
    answer = answer_of(OllamaStream, json.dumps(body).encode())
    sent = json.loads(ollama.encode_request(next_request(answer), 4096))
    assert sent["messages"][2]["tool_calls"] == [given]


def respond(*items: dict[str, Any]) -> Answer:
    return answer_of(ResponseStream, json.dumps({"status": "completed", "output": list(items)}).encode())


def response_input(answer: Answer, **turn: Any) -> list[dict[str, Any]]:
    body = responses.encode_request(next_request(answer, **turn), responses.ResponsesQuirks())
    sent: list[dict[str, Any]] = json.loads(body)["input"]
    return sent[1:]


def test_fields_of_a_function_call_item_go_back_with_it() -> None:
    item = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}", "namespace": "n"}
    assert response_input(respond(item))[0] == {k: v for k, v in item.items() if k != "id"}


def test_custom_tool_call_is_a_call_with_raw_text_and_goes_back_as_one() -> None:
    item = {"type": "custom_tool_call", "id": "ct", "call_id": "c", "name": "patch", "input": "*** Begin"}
    answer = respond(item)
    (got,) = answer.calls
    assert (got.name, got.arguments, got.raw, answer.finish) == ("patch", None, "*** Begin", "tool_calls")
    assert response_input(answer) == [
        {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
    ]
    # A shortened turn has function calls alone, and so results of functions.
    assert [item["type"] for item in response_input(answer, continuation=None)] == [
        "function_call",
        "function_call_output",
    ]


def test_custom_tool_call_is_read_from_its_pieces() -> None:
    item = {"type": "custom_tool_call", "id": "ct", "call_id": "c", "name": "sh", "input": ""}
    events: list[dict[str, Any]] = [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.custom_tool_call_input.delta", "output_index": 0, "item_id": "ct", "delta": "ls "},
        {"type": "response.custom_tool_call_input.delta", "output_index": 0, "item_id": "ct", "delta": "-l"},
        {"type": "response.completed", "response": {"status": "completed"}},
    ]
    assert answer_of(ResponseStream, sse(*events)).calls[0].raw == "ls -l"
