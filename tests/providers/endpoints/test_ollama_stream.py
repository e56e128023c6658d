import json
from functools import partial
from typing import Any

import pytest

from providers.base import Answer
from providers.endpoints.ollama_stream import OllamaStream
from providers.errors import ProviderError
from providers.usage import Usage
from tests.providers.endpoints.wire import (
    answer_of,
    failure_of,
    hostile_copies,
    read,
)

# --- parts ------------------------------------------------------------------------------------------------------


def lines(*chunks: Any) -> bytes:
    return "".join(json.dumps(chunk) + "\n" for chunk in chunks).encode()


def said(content: str = "", **fields: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": content, **fields}, "done": False}


def done(reason: str | None = "stop", **fields: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"content": ""}, "done": True, "done_reason": reason, **fields}


def call(name: str = "f", arguments: Any = None, **fields: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": {} if arguments is None else arguments}, **fields}


def answer(*chunks: dict[str, Any], **options: Any) -> Answer:
    return answer_of(partial(OllamaStream, **options), lines(*chunks))


@pytest.mark.parametrize(
    ("reason", "finish"), [("stop", "stop"), ("length", "length"), ("novelty", "stop"), (None, None)]
)
def test_reason_is_told_in_our_words_and_kept_in_theirs(reason: str | None, finish: str | None) -> None:
    got = answer(said("x"), done(reason))
    assert (got.finish, got.finish_raw) == (finish, reason)


def test_calls_without_an_id_are_numbered_on_from_the_conversations() -> None:
    got = answer(said(tool_calls=[call(), call("g", {"a": 1})]), said(tool_calls=[call()]), done(), first_call=4)
    assert [(c.id, c.name, c.arguments) for c in got.calls] == [
        ("call_4", "f", {}),
        ("call_5", "g", {"a": 1}),
        ("call_6", "f", {}),
    ]
    assert got.finish == "tool_calls"


def test_id_that_the_server_gives_is_kept() -> None:
    got = answer(said(tool_calls=[call(id="call_abc"), call(id="")]), done())
    assert [c.id for c in got.calls] == ["call_abc", "call_1"]


@pytest.mark.parametrize(
    ("arguments", "read_as", "problem"),
    [
        ({"a": 1}, {"a": 1}, None),
        ('{"a":1}', {"a": 1}, None),
        ([1], None, "not_an_object"),
        ("{", None, "invalid_json"),
    ],
)
def test_arguments_are_an_object_or_its_text(
    arguments: Any, read_as: dict[str, Any] | None, problem: str | None
) -> None:
    got = answer(said(tool_calls=[call(arguments=arguments)]), done())
    assert (got.calls[0].arguments, got.calls[0].problem) == (read_as, problem)


def test_thinking_is_no_text() -> None:
    got = answer(said(thinking="hm "), said(thinking="so"), said("yes"), done())
    assert (got.reasoning, got.text) == ("hm so", "yes")


def test_nothing_after_the_last_line_counts() -> None:
    assert answer(said("x"), done(), said("y")).text == "x"


# --- ends and errors --------------------------------------------------------------------------------------------


def test_error_line_fails_the_answer_with_what_came() -> None:
    error = failure_of(OllamaStream, lines(said("half"), {"error": "an error was encountered while running the model"}))
    assert (error.kind, error.retryable, error.mid_stream, error.text) == ("server_error", True, True, "half")


def test_stream_without_its_last_line_is_truncated() -> None:
    error = failure_of(OllamaStream, lines(said("half")))
    assert (error.kind, error.retryable, error.text, error.model) == ("truncated", True, "half", "m")


def test_half_a_line_at_the_end_is_no_line() -> None:
    error = failure_of(OllamaStream, lines(said("half")) + b'{"model": "m", "done": tr')
    assert (error.kind, error.text) == ("truncated", "half")


@pytest.mark.parametrize("reason", ["load", "unload"])
def test_end_of_a_request_that_asked_nothing_is_no_answer(reason: str) -> None:
    error = failure_of(OllamaStream, lines(done(reason)))
    assert (error.kind, error.retryable) == ("server_error", True)


def test_line_that_is_no_json_fails_the_answer_and_keeps_its_usage() -> None:
    error = failure_of(OllamaStream, lines(said("a")), b"{oops\n", lines(done(eval_count=3)))
    assert (error.kind, error.retryable, error.usage) == ("bad_payload", True, Usage(output=3))


def test_document_in_place_of_a_stream_reads_the_same_on_one_line_or_on_many() -> None:
    document = done("stop", eval_count=2) | {"message": {"content": "hi", "thinking": "hm"}}
    for indent in (None, 1):
        got = answer_of(OllamaStream, json.dumps(document, indent=indent).encode())
        assert (got.text, got.reasoning, got.finish, got.usage) == ("hi", "hm", "stop", Usage(output=2))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"error": "model requires more system memory"}', "server_error"),
        (b'{\n "ok": true\n}', "bad_payload"),
        (b"<html>\n<p>hello</p>\n</html>\n", "bad_payload"),
        (b"404 page not found", "bad_payload"),
        (b"", "truncated"),
    ],
)
def test_body_that_is_no_answer_is_an_error(body: bytes, kind: str) -> None:
    assert failure_of(OllamaStream, body).kind == kind


def test_page_in_place_of_an_answer_says_what_it_was() -> None:
    error = failure_of(OllamaStream, b"<html>\n<p>Welcome to the portal</p>\n</html>\n")
    assert "base URL right" in error.message
    assert "Welcome to the portal" in error.message


def test_broken_connection_before_the_last_line_carries_what_came() -> None:
    stream = OllamaStream()
    stream.feed(lines(said("x")))
    with pytest.raises(ProviderError) as failed:
        stream.finish_broken(ProviderError(kind="truncated", message="reset", retryable=True, mid_stream=True))
    assert (failed.value.text, failed.value.model) == ("x", "m")


# --- usage ------------------------------------------------------------------------------------------------------


def test_missing_usage_is_none_and_noted() -> None:
    got = answer(done())
    assert (got.usage, got.notes) == (None, ("usage_unreported",))


def test_prompt_that_was_not_counted_is_none() -> None:
    assert answer(done(prompt_eval_count=0, eval_count=0)).usage is None
    assert answer(done(eval_count=4)).usage == Usage(output=4)


@pytest.mark.parametrize("absurd", [-1, "12", 1e12, True, [], {}])
def test_absurd_number_is_dropped_and_noted(absurd: Any) -> None:
    got = answer(done(prompt_eval_count=absurd, eval_count=2))
    assert (got.usage, got.notes) == (Usage(output=2), ("usage_implausible",))


def test_values_of_the_wrong_type_never_crash_the_reader() -> None:
    for changed in hostile_copies([said("x", thinking="y", tool_calls=[call(id="a")]), done(eval_count=1)]):
        read(OllamaStream, lines(*changed).replace(b"Infinity", b"1e400"))
