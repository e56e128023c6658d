"""Tests of finish words, and of answers that their endpoint broke off, in all formats."""

import json
from typing import Any

import pytest

from providers.base import Answer
from providers.endpoints.anthropic_stream import MessageStream
from providers.endpoints.dialects.finishes import find_meaning
from providers.endpoints.ollama_stream import OllamaStream
from providers.endpoints.openai_stream import ChatStream
from providers.endpoints.responses_stream import ResponseStream
from providers.usage import Usage
from tests.providers.endpoints.wire import answer_of, failure_of

USAGE = {"prompt_tokens": 7, "completion_tokens": 2}


def chat(finish: str | None, text: str = "half", **choice: Any) -> bytes:
    chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish, **choice}], "usage": USAGE}
    return f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()


def messages(reason: str | None, text: str | None = "half") -> bytes:
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"usage": {"input_tokens": 7}}}]
    if text is not None:
        events.append({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": text}})
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 2}})
    events.append({"type": "message_stop"})
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()


def ollama(reason: str | None, text: str = "half") -> bytes:
    line = {"model": "m", "message": {"content": text}, "done": True, "prompt_eval_count": 7, "eval_count": 2}
    return json.dumps(line | ({"done_reason": reason} if reason else {})).encode() + b"\n"


BROKEN = ["abort", "aborted", "ABORT", "cancelled", "canceled", "error", "failed", "timeout", "network_error"]
BROKEN += ["insufficient_system_resource", "FinishReason.error"]


@pytest.mark.parametrize("word", BROKEN)
def test_broken_off_answer_is_a_server_error_with_its_usage(word: str) -> None:
    for reader, body in (
        (ChatStream, chat(word)),
        (MessageStream, messages(word)),
        (OllamaStream, ollama(word)),
    ):
        error = failure_of(reader, body)
        assert (error.kind, error.retryable, error.broken_off, error.text) == ("server_error", True, True, "half")
        assert error.usage == Usage(input=7, output=2)


@pytest.mark.parametrize("status", ["cancelled", "failed"])
def test_broken_off_response_is_a_server_error(status: str) -> None:
    end = {"type": f"response.{status}", "response": {"status": status}}
    error = failure_of(ResponseStream, f"data: {json.dumps(end)}\n\n".encode())
    assert (error.kind, error.retryable, error.broken_off) == ("server_error", True, True)


NOTHING = [
    (ChatStream, b"data: [DONE]\n\n"),
    (ChatStream, b'data: {"choices":[]}\n\ndata: [DONE]\n\n'),
    (ChatStream, b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\ndata: [DONE]\n\n'),
    (ChatStream, b'data: {"choices":[{"index":0,"delta":{"reasoning":"hm"}}]}\n\ndata: [DONE]\n\n'),
    (ChatStream, b'data: {"choices":[{"index":0,"delta":{"tool_calls":[]}}]}\n\ndata: [DONE]\n\n'),
    (ChatStream, b'{"choices":[]}'),
    (ChatStream, b'{"choices":[{"index":0,"message":{"role":"assistant","content":null}}]}'),
    (MessageStream, messages(None, None)),
    (MessageStream, b'data: {"type":"message_stop"}\n\n'),
    (OllamaStream, ollama(None, "")),
]


@pytest.mark.parametrize(("reader", "body"), NOTHING)
def test_answer_that_never_began_and_reports_no_end_is_broken(reader: Any, body: bytes) -> None:
    error = failure_of(reader, body)
    assert (error.kind, error.retryable, error.broken_off) == ("server_error", True, True)


@pytest.mark.parametrize(
    ("reader", "body", "finish"),
    [
        (ChatStream, chat(None), None),
        (ChatStream, chat("stop", ""), "stop"),
        (MessageStream, messages("end_turn", None), "stop"),
        (OllamaStream, ollama(None), None),
        (OllamaStream, ollama("stop", ""), "stop"),
    ],
)
def test_text_or_a_reported_end_makes_an_answer(reader: Any, body: bytes, finish: str | None) -> None:
    assert answer_of(reader, body).finish == finish


@pytest.mark.parametrize("word", ["novelty", "FINISH_REASON_UNSPECIFIED", "OTHER", "stop!", "repetition"])
def test_unknown_word_ends_a_complete_answer_with_a_note(word: str) -> None:
    answers: list[Answer] = [
        answer_of(ChatStream, chat(word)),
        answer_of(MessageStream, messages(word)),
        answer_of(OllamaStream, ollama(word)),
    ]
    for got in answers:
        assert (got.finish, got.finish_raw, got.text) == ("stop", word, "half")
        assert "unknown_finish" in got.notes


@pytest.mark.parametrize(
    "word",
    [
        "MALFORMED_FUNCTION_CALL",
        "malformed_function_call",
        "function_call_filter: MALFORMED_FUNCTION_CALL",
        "FinishReason.MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "malformed_tool_use",
    ],
)
def test_malformed_call_is_the_models_fault(word: str) -> None:
    error = failure_of(ChatStream, chat(word, ""))
    assert (error.kind, error.retryable) == ("bad_tool_call", False)


def test_gateways_native_word_counts_where_its_own_hides_it() -> None:
    error = failure_of(ChatStream, chat("stop", "", native_finish_reason="MALFORMED_FUNCTION_CALL"))
    assert error.kind == "bad_tool_call"
    assert answer_of(ChatStream, chat("stop", native_finish_reason="end_turn")).finish == "stop"


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("model_context_window_exceeded", "length"),
        ("MAX_TOKENS", "length"),
        ("COMPLETE", "stop"),
        ("eos-token", "stop"),
        ("SAFETY", "content_filter"),
        ("guardrail_intervened", "content_filter"),
        ("TOOL_CALL", "tool_calls"),
        ("pause_turn", "pause"),
        ("", None),
        (None, None),
    ],
)
def test_word_is_found_in_any_spelling(word: str | None, meaning: str | None) -> None:
    assert find_meaning(word) == meaning
