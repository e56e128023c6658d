"""The recorded bodies in data/wire, each with its expectation."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from providers.base import Answer, Emitted, ReasoningDelta, TextDelta
from providers.endpoints.faults import MAX_EXCERPT_CHARS
from providers.endpoints.reader import AnswerReader
from providers.errors import ProviderError
from store.documents.text import drop_last_word

FOLDER = Path(__file__).parent / "data" / "wire"
FIELDS = ("input", "output", "cached", "cache_write", "reasoning")


def samples(*formats: str) -> list[tuple[str, bytes, dict[str, Any]]]:
    """(name, body, document) of every sample in one of the *formats*; the document holds `expected` and `http`."""
    found = []
    for path in sorted(FOLDER.glob("*.expected.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] in formats:
            found.append((document["sample"], (FOLDER / document["sample"]).read_bytes(), document))
    assert found, formats
    return found


def read(make: type[AnswerReader], *pieces: bytes) -> dict[str, Any]:
    """What a reader made of the pieces, in the shape of an expectation."""
    heard: list[Emitted] = []
    stream = make(heard.append)
    answer = error = None
    try:
        for piece in pieces:
            stream.feed(piece)
        answer = stream.finish_answer()
    except ProviderError as failed:
        error = failed
    text = "".join(d.text for d in heard if isinstance(d, TextDelta))
    reasoning = "".join(d.text for d in heard if isinstance(d, ReasoningDelta))
    if answer is not None and "stream_restarted" in answer.notes:
        assert text.endswith(stream.text)
        assert reasoning.endswith(stream.reasoning)
    else:
        assert (text, reasoning) == (stream.text, stream.reasoning)
    usage = stream.last_usage()[0]
    if error is not None:
        assert (error.text, error.usage, error.model) == (stream.text, usage, stream.model)
    seen = {
        "text": stream.text,
        "reasoning": stream.reasoning,
        "usage": {field: getattr(usage, field, None) for field in FIELDS},
        "model": stream.model,
        "finish_reason_raw": stream.finish_raw,
        "terminated": stream.done,
        "error": error and (error.kind, error.retryable, error.mid_stream, error.message.removesuffix("…")),
    }
    if answer is not None:
        seen["finish"] = answer.finish
        seen["refusal"] = answer.refusal or None
        seen["tool_calls"] = [(c.id, c.name, c.arguments, c.problem) for c in answer.calls]
    return seen


def wanted(document: dict[str, Any]) -> dict[str, Any]:
    """The expectation, in the same shape. A call that has no id on the wire gets one by its number."""
    expected = document["expected"]
    error = expected["error"]
    keys = ["text", "reasoning", "usage", "model", "finish_reason_raw", "terminated"]
    seen = {key: expected[key] for key in keys}
    if error is None:
        seen["error"] = None
        seen["finish"] = expected["finish"]
        seen["refusal"] = expected["refusal"]
        seen["tool_calls"] = [
            (c["id"] or f"call_{number}", c["name"], c["args"], c.get("args_error"))
            for number, c in enumerate(expected["tool_calls"], start=1)
        ]
    else:
        message = shorten_message(error["message"]).removesuffix("…")
        seen["error"] = (error["kind"], error["retryable"], error["mid_stream"], message or ANY)
    return seen


def shorten_message(message: str) -> str:
    """The message of an error as the readers shorten it."""
    return message if len(message) <= MAX_EXCERPT_CHARS else drop_last_word(message[: MAX_EXCERPT_CHARS - 1]) + "…"


def same_however_it_is_cut(make: type[AnswerReader], body: bytes, document: dict[str, Any]) -> None:
    """At once, byte by byte, and in two pieces: cut at every byte around the ends of lines, and here and there."""
    expected = wanted(document)
    assert read(make, body) == expected
    ends = [at for at, byte in enumerate(body) if byte in b"\r\n"]
    cuts = {at + by for at in ends for by in range(-2, 4)} | set(range(0, len(body), 11))
    for cut in sorted(cuts):
        assert read(make, body[:cut], body[cut:]) == expected, cut
    assert read(make, *(body[i : i + 1] for i in range(len(body)))) == expected


def answer_of(make: Callable[..., Any] | type[AnswerReader], *pieces: bytes) -> Answer:
    """The answer that a reader made of the pieces."""
    stream = make()
    for piece in pieces:
        stream.feed(piece)
    return stream.finish_answer()


def failure_of(make: type[AnswerReader], *pieces: bytes) -> ProviderError:
    """The error that a reader raised."""
    with pytest.raises(ProviderError) as failed:
        answer_of(make, *pieces)
    return failed.value


def hostile_copies(document: Any) -> Iterator[Any]:
    """*document* with each of its values in turn replaced by one of a wrong type."""
    wrongs: list[Any] = [[], {}, True, 1e400, -1, "0", "\ud800", None, [[]], {"a": {}}]
    for wrong in wrongs:
        yield from _replaced(document, wrong)


def _replaced(value: Any, wrong: Any) -> Iterator[Any]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        copy = dict(value) if isinstance(value, dict) else list(value)
        for other in (wrong, *_replaced(inner, wrong)):
            copy[key] = other
            yield dict(copy) if isinstance(copy, dict) else list(copy)
