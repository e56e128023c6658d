"""Tests that usage is read in every place a provider puts it, and that zeros nobody counted are not reported."""

import json
from typing import Any

import pytest

from providers.endpoints.anthropic_stream import MessageStream
from providers.endpoints.ollama_stream import OllamaStream
from providers.endpoints.openai_stream import ChatStream
from providers.endpoints.responses_stream import ResponseStream
from providers.usage import Usage
from tests.providers.endpoints.wire import answer_of

REPORT = {"prompt_tokens": 7, "completion_tokens": 2}
CALL = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}


def chat(
    usage: Any, text: str = "hi", finish: str = "stop", calls: list[Any] | None = None
) -> tuple[Usage | None, tuple[str, ...]]:
    delta = {"content": text, "tool_calls": calls or []}
    chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": usage}
    got = answer_of(ChatStream, f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())
    return got.usage, got.notes


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": [], "usage": REPORT},
        {"choices": [{"index": 0, "delta": {}, "usage": REPORT}]},
        {"choices": [{"index": 0, "delta": {"usage": REPORT}}]},
        {"choices": [{"index": 0, "message": {"usage": REPORT}}]},
        {"choices": [], "x_groq": {"usage": REPORT}},
        {"usage": REPORT},
        {"choices": None, "usage": REPORT},
        {"choices": [{"index": 0, "delta": {}, "usage": REPORT}], "usage": None},
        {"choices": [{"index": 0, "delta": {}, "usage": {"prompt_tokens": 1}}], "usage": REPORT},
    ],
)
def test_usage_of_chat_completions_is_found(chunk: dict[str, Any]) -> None:
    end = {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}
    for chunks in ([chunk, end], [end, chunk]):
        body = "".join(f"data: {json.dumps(one)}\n\n" for one in chunks) + "data: [DONE]\n\n"
        assert answer_of(ChatStream, body.encode()).usage == Usage(input=7, output=2)


def test_usage_of_a_choice_in_a_document_is_found() -> None:
    document = {"choices": [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop", "usage": REPORT}]}
    assert answer_of(ChatStream, json.dumps(document).encode()).usage == Usage(input=7, output=2)


@pytest.mark.parametrize(
    ("report", "output"),
    [
        (REPORT | {"total_tokens": 409}, 402),
        (REPORT | {"total_tokens": 9}, 2),
        (REPORT | {"total_tokens": 3}, 2),
        (REPORT | {"total_tokens": -1}, 2),
        (REPORT | {"total_tokens": None}, 2),
        (REPORT | {"total_tokens": 12, "completion_tokens_details": {"reasoning_tokens": 3}}, 5),
        (REPORT | {"total_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 1}}, 2),
    ],
)
def test_thoughts_in_the_total_are_output(report: dict[str, Any], output: int) -> None:
    usage, _ = chat(report)
    assert usage is not None
    assert (usage.input, usage.output) == (7, output)


def test_total_next_to_calls_says_nothing_about_the_output() -> None:
    assert chat(REPORT | {"total_tokens": 409}, calls=[CALL])[0] == Usage(input=7, output=2)


@pytest.mark.parametrize(
    ("report", "text", "usage", "unreported"),
    [
        ({"prompt_tokens": 0, "completion_tokens": 0}, "hi", None, True),
        ({"prompt_tokens": 0, "completion_tokens": 0}, "", None, True),
        ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, "hi", None, True),
        ({"prompt_tokens": 7, "completion_tokens": 0}, "hi", Usage(input=7), True),
        ({"prompt_tokens": 0, "completion_tokens": 2}, "hi", Usage(output=2), True),
        ({"prompt_tokens": 7, "completion_tokens": 0}, "", Usage(input=7, output=0), False),
        (
            {"prompt_tokens": 0, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 7}},
            "hi",
            Usage(input=0, output=2),
            False,
        ),
        (
            {"prompt_tokens": 7, "completion_tokens": 0, "completion_tokens_details": {"reasoning_tokens": 4}},
            "hi",
            Usage(input=7, output=0, reasoning=4),
            False,
        ),
        (
            {"prompt_tokens": 0, "completion_tokens": 0, "prompt_tokens_details": {"cached_tokens": 0}},
            "hi",
            None,
            True,
        ),
        (REPORT, "hi", Usage(input=7, output=2), False),
    ],
)
def test_zero_where_text_was_sent_or_came_is_not_reported(
    report: dict[str, Any], text: str, usage: Usage | None, unreported: bool
) -> None:
    got, notes = chat(report, text)
    assert (got, "usage_unreported" in notes) == (usage, unreported)


def test_zero_output_with_a_call_is_not_reported() -> None:
    assert chat({"prompt_tokens": 7, "completion_tokens": 0}, "", "tool_calls", [CALL])[0] == Usage(input=7)


def test_zeros_of_the_other_formats_are_not_reported() -> None:
    text = {"type": "text", "text": "hi"}
    message: dict[str, Any] = {"type": "message", "content": [text], "stop_reason": "end_turn"}
    message["usage"] = {"input_tokens": 0, "output_tokens": 0}
    parts = [{"type": "message", "content": [{"type": "output_text", "text": "hi"}]}]
    response = {"status": "completed", "output": parts, "usage": {"input_tokens": 0, "output_tokens": 0}}
    line = {"model": "m", "message": {"content": "hi"}, "done": True, "prompt_eval_count": 0, "eval_count": 0}
    for reader, document in ((MessageStream, message), (ResponseStream, response), (OllamaStream, line)):
        got = answer_of(reader, json.dumps(document).encode())
        assert (got.text, got.usage, got.notes) == ("hi", None, ("usage_unreported",))


@pytest.mark.parametrize(
    ("details", "reasoning"),
    [({"thinking_tokens": 3}, 3), ({"reasoning_tokens": 3}, 3), ({"thinking_tokens": 0}, 0), ({}, None), (None, None)],
)
def test_thinking_tokens_of_anthropic_are_reasoning(details: Any, reasoning: int | None) -> None:
    usage = {"input_tokens": 5, "output_tokens": 9, "output_tokens_details": details}
    document = {"content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn", "usage": usage}
    got = answer_of(MessageStream, json.dumps(document).encode())
    assert got.usage == Usage(input=5, output=9, reasoning=reasoning)
