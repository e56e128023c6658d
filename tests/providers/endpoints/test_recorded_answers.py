"""Tests that every format reads its recorded answers as expected, however a body is cut into pieces."""

from typing import Any

import pytest

from providers.endpoints.anthropic_stream import MessageStream
from providers.endpoints.ollama_stream import OllamaStream
from providers.endpoints.openai_stream import ChatStream
from providers.endpoints.reader import AnswerReader
from providers.endpoints.responses_stream import ResponseStream
from tests.providers.endpoints.wire import read, same_however_it_is_cut, samples, wanted

READERS: list[tuple[type[AnswerReader], tuple[str, ...]]] = [
    (ChatStream, ("openai-chat-sse", "openai-chat-json")),
    (ResponseStream, ("openai-responses-sse",)),
    (MessageStream, ("anthropic-sse",)),
    (OllamaStream, ("ollama-chat-ndjson",)),
]
RECORDED = [(reader, *sample) for reader, formats in READERS for sample in samples(*formats)]
STREAMED = [one for one in RECORDED if not one[1].endswith(".json") and b"\r" not in one[2]]


def each(recorded: list[tuple[type[AnswerReader], str, bytes, dict[str, Any]]]) -> pytest.MarkDecorator:
    """A test of every recorded answer."""
    cases = [(reader, body, document) for reader, _, body, document in recorded]
    return pytest.mark.parametrize(("reader", "body", "document"), cases, ids=[name for _, name, _, _ in recorded])


@each(RECORDED)
def test_a_recorded_answer_reads_as_expected_however_it_is_cut(
    reader: type[AnswerReader], body: bytes, document: dict[str, Any]
) -> None:
    same_however_it_is_cut(reader, body, document)


@each(STREAMED)
def test_a_recorded_stream_reads_the_same_with_carriage_returns(
    reader: type[AnswerReader], body: bytes, document: dict[str, Any]
) -> None:
    assert read(reader, body.replace(b"\n", b"\r\n")) == wanted(document)


@each([one for one in STREAMED if "cut-before-done" not in one[1]])
def test_the_last_event_of_a_recorded_stream_needs_no_end(
    reader: type[AnswerReader], body: bytes, document: dict[str, Any]
) -> None:
    assert read(reader, body.rstrip(b"\n")) == wanted(document)
