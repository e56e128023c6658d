"""Tests that characters split into two surrogates are joined, in every format and field."""

import json
from typing import Any

import pytest

from providers.base import Emitted, TextDelta
from providers.endpoints.anthropic_stream import MessageStream
from providers.endpoints.dialects.surrogates import SurrogateJoiner, join_surrogates
from providers.endpoints.ollama_stream import OllamaStream
from providers.endpoints.openai_stream import ChatStream
from providers.endpoints.responses_stream import ResponseStream
from tests.providers.endpoints.wire import answer_of

HIGH, LOW = "\ud83d", "\ude00"


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["a", HIGH, LOW, "b"], "a😀b"),
        (["a" + HIGH, LOW + "b"], "a😀b"),
        ([HIGH, LOW + HIGH, LOW], "😀😀"),
        ([HIGH, "a"], HIGH + "a"),
        ([HIGH], HIGH),
        ([LOW, HIGH], LOW + HIGH),
        ([HIGH, HIGH, LOW], HIGH + "😀"),
        ([HIGH + LOW], "😀"),
        (["😀", HIGH, LOW], "😀😀"),
        ([], ""),
    ],
)
def test_halves_are_joined_and_lone_ones_stay(pieces: list[str], text: str) -> None:
    joiner = SurrogateJoiner()
    assert "".join([*map(joiner.add, pieces), joiner.close()]) == text
    assert join_surrogates("".join(pieces)) == text


def sse(*events: dict[str, Any]) -> bytes:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()


CHAT = sse(
    {"choices": [{"index": 0, "delta": {"content": HIGH, "reasoning": HIGH}}]},
    {"choices": [{"index": 0, "delta": {"content": LOW, "reasoning": LOW}, "finish_reason": "stop"}]},
)
MESSAGES = sse(
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": HIGH}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": LOW}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": HIGH}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": LOW}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    {"type": "message_stop"},
)
RESPONSES = sse(
    {"type": "response.reasoning_text.delta", "output_index": 0, "delta": HIGH},
    {"type": "response.reasoning_text.delta", "output_index": 0, "delta": LOW},
    {"type": "response.output_text.delta", "output_index": 1, "delta": HIGH},
    {"type": "response.output_text.delta", "output_index": 1, "delta": LOW},
    {"type": "response.completed", "response": {"status": "completed"}},
)
OLLAMA = b"".join(
    json.dumps({"model": "m", "message": {"content": half, "thinking": half}, "done": half == LOW}).encode() + b"\n"
    for half in (HIGH, LOW)
)


@pytest.mark.parametrize(
    ("reader", "body"),
    [(ChatStream, CHAT), (MessageStream, MESSAGES), (ResponseStream, RESPONSES), (OllamaStream, OLLAMA)],
)
def test_text_and_reasoning_are_joined_and_emitted_whole(reader: Any, body: bytes) -> None:
    heard: list[Emitted] = []
    got = answer_of(lambda: reader(heard.append), body)
    assert (got.text, got.reasoning) == ("😀", "😀")
    assert [item.text for item in heard if isinstance(item, TextDelta)] == ["😀"]


def test_arguments_are_joined() -> None:
    pieces = [{"index": 0, "function": {"name": "f", "arguments": '{"a": "' + HIGH}}]
    rest = [{"index": 0, "function": {"arguments": LOW + '"}'}}]
    body = sse(
        {"choices": [{"index": 0, "delta": {"tool_calls": pieces}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": rest}, "finish_reason": "tool_calls"}]},
    )
    assert answer_of(ChatStream, body).calls[0].arguments == {"a": "😀"}
