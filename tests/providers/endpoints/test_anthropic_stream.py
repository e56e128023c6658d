import json
from typing import Any

import pytest

from providers.base import Answer
from providers.endpoints.anthropic_stream import MessageStream
from providers.errors import ProviderError
from providers.usage import Usage
from tests.providers.endpoints.wire import (
    answer_of,
    failure_of,
    hostile_copies,
    read,
    samples,
)

RECORDED = samples("anthropic-sse")


# --- parts ------------------------------------------------------------------------------------------------------


def sse(*events: dict[str, Any]) -> bytes:
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode()


def start(**usage: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"model": "m", "content": [], "usage": usage}}


def block(index: int, kind: str, **content: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind, **content}}


def piece(index: int, kind: str, **content: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **content}}


def stop(reason: str, **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


END = {"type": "message_stop"}


def answer(*events: dict[str, Any]) -> Answer:
    return answer_of(MessageStream, sse(start(input_tokens=1), *events, END))


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "pause"),
        ("something_new", "stop"),
    ],
)
def test_reason_is_told_in_our_words_and_kept_in_theirs(reason: str, finish: str | None) -> None:
    got = answer(stop(reason))
    assert (got.finish, got.finish_raw) == (finish, reason)


def test_calls_make_an_end_of_turn_a_turn_with_calls() -> None:
    got = answer(block(0, "tool_use", id="t", name="f", input={}), stop("end_turn"))
    assert got.finish == "tool_calls"


def test_answer_that_fills_the_context_window_is_cut_off() -> None:
    got = answer_of(
        MessageStream,
        sse(
            start(input_tokens=9),
            block(0, "text", text=""),
            piece(0, "text_delta", text="half"),
            stop("model_context_window_exceeded", output_tokens=4),
            END,
        ),
    )
    assert (got.finish, got.text, got.usage) == ("length", "half", Usage(input=9, output=4))


def test_thinking_and_what_the_endpoints_own_tools_did_are_kept_whole_and_in_order() -> None:
    result = {"type": "web_search_tool_result", "tool_use_id": "srv", "content": [{"url": "u"}]}
    got = answer(
        block(0, "thinking", thinking="", signature=""),
        piece(0, "thinking_delta", thinking="hm "),
        piece(0, "thinking_delta", thinking="so"),
        piece(0, "signature_delta", signature="sig"),
        block(1, "server_tool_use", id="srv", name="web_search", input={}),
        piece(1, "input_json_delta", partial_json='{"query":'),
        piece(1, "input_json_delta", partial_json='"q"}'),
        {"type": "content_block_start", "index": 2, "content_block": result},
        block(3, "text", text=""),
        piece(3, "citations_delta", citation={"url": "u"}),
        piece(3, "text_delta", text="found"),
        block(4, "tool_use", id="t", name="f", input={}),
        piece(4, "input_json_delta", partial_json='{"a":1}'),
        stop("tool_use"),
    )
    assert (got.text, got.reasoning) == ("found", "hm so")
    assert [(c.id, c.name, c.arguments) for c in got.calls] == [("t", "f", {"a": 1})]
    assert got.continuation == {
        "blocks": [
            {"type": "thinking", "thinking": "hm so", "signature": "sig"},
            {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {"query": "q"}},
            result,
            {"type": "text", "text": "found", "citations": [{"url": "u"}]},
            {"type": "call"},
        ]
    }


def test_redacted_thinking_is_kept_and_not_shown() -> None:
    _, body, _ = next(sample for sample in RECORDED if "redacted" in sample[0])
    got = answer_of(MessageStream, body)
    assert got.reasoning == ""
    assert got.continuation["blocks"][:2] == [{"type": "redacted_thinking", "data": "REDACTEDSIG"}] * 2


def test_block_that_grew_in_an_unknown_way_is_not_sent_back_half() -> None:
    got = answer(
        block(0, "novelty", x=1), piece(0, "novelty_delta", y=2), block(1, "thinking", thinking="a"), stop("x")
    )
    assert got.continuation == {"blocks": [{"type": "thinking", "thinking": "a"}]}


def test_text_and_calls_alone_need_no_continuation() -> None:
    assert answer(block(0, "text", text="a"), stop("end_turn")).continuation is None


def test_spliced_retry_is_noted_and_keeps_only_the_second_answers_blocks() -> None:
    _, body, _ = next(sample for sample in RECORDED if "spliced" in sample[0])
    got = answer_of(MessageStream, body)
    assert got.notes == ("stream_restarted",)
    assert got.continuation["blocks"][0] == {
        "type": "thinking",
        "thinking": "Let me call the tool.",
        "signature": "sig-second",
    }


def test_input_that_comes_whole_with_its_block_is_taken() -> None:
    got = answer(block(0, "tool_use", id="t", name="f", input={"a": 1}), stop("tool_use"))
    assert got.calls[0].arguments == {"a": 1}


def test_arguments_that_are_no_json_are_kept_raw() -> None:
    got = answer(
        block(0, "tool_use", id="t", name="f", input={}),
        piece(0, "input_json_delta", partial_json='{"a":'),
        stop("max_tokens"),
    )
    assert (got.calls[0].arguments, got.calls[0].problem, got.finish) == (None, "invalid_json", "length")


def test_text_without_an_index_or_a_beginning_is_text_all_the_same() -> None:
    events = ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}} for text in "ab")
    assert answer(*events, stop("end_turn")).text == "ab"


# --- ends and errors --------------------------------------------------------------------------------------------


def test_stop_reason_without_the_last_event_is_a_whole_answer() -> None:
    assert answer_of(MessageStream, sse(start(), block(0, "text", text="x"), stop("end_turn"))).text == "x"


def test_stream_without_a_stop_reason_is_truncated_with_what_came() -> None:
    error = failure_of(MessageStream, sse(start(input_tokens=3), block(0, "text", text="x")))
    assert (error.kind, error.retryable, error.text, error.usage) == ("truncated", True, "x", Usage(input=3))


def test_done_of_other_formats_ends_nothing() -> None:
    error = failure_of(MessageStream, sse(start()), b"data: [DONE]\n\n")
    assert error.kind == "truncated"


def test_error_event_without_a_frame_of_its_own_is_an_error() -> None:
    body = b'event: error\ndata: {"type": "overloaded_error", "message": "busy"}\n\n'
    assert failure_of(MessageStream, body).kind == "overloaded"


def test_line_that_is_no_json_fails_the_answer_and_keeps_its_usage() -> None:
    error = failure_of(MessageStream, sse(start(input_tokens=3)), b"data: {oops\n\n", sse(stop("end_turn"), END))
    assert (error.kind, error.retryable, error.usage) == ("bad_payload", True, Usage(input=3))


def test_document_in_place_of_a_stream_reads_the_same() -> None:
    document = {
        "type": "message",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "hi"},
            {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 2, "cache_read_input_tokens": 1},
    }
    got = answer_of(MessageStream, json.dumps(document, indent=1).encode())
    assert (got.text, got.reasoning, got.finish, got.model) == ("hi", "hm", "tool_calls", "m")
    assert got.usage == Usage(input=4, output=2, cached=1)
    assert got.continuation["blocks"][0]["signature"] == "s"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"type": "error", "error": {"type": "overloaded_error", "message": "x"}}', "overloaded"),
        (b'{"ok": true}', "bad_payload"),
        (b"<html>hello</html>", "bad_payload"),
        (b"", "truncated"),
    ],
)
def test_document_that_is_no_answer_is_an_error(body: bytes, kind: str) -> None:
    assert failure_of(MessageStream, body).kind == kind


# --- usage ------------------------------------------------------------------------------------------------------


def test_missing_usage_is_none_and_noted() -> None:
    got = answer_of(MessageStream, sse(start(), stop("end_turn"), END))
    assert (got.usage, got.notes) == (None, ("usage_unreported",))


def test_null_in_a_later_report_takes_nothing_back() -> None:
    got = answer(stop("end_turn", input_tokens=None, output_tokens=2))
    assert got.usage == Usage(input=1, output=2)


def test_cache_writes_told_by_lifetime_only_are_added() -> None:
    got = answer_of(
        MessageStream,
        sse(
            start(
                input_tokens=1,
                cache_creation={"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 3},
            ),
            stop("end_turn", output_tokens=0),
            END,
        ),
    )
    assert got.usage == Usage(input=6, output=0, cache_write=5, cache_write_1h=3)


@pytest.mark.parametrize("absurd", [-1, "12", 1e12, True, [], {}])
def test_absurd_number_is_dropped_and_noted(absurd: Any) -> None:
    got = answer(stop("end_turn", output_tokens=absurd))
    assert (got.usage, got.notes) == (Usage(input=1), ("usage_implausible",))


def test_values_of_the_wrong_type_never_crash_the_reader() -> None:
    events = [
        start(input_tokens=1),
        block(0, "text", text="a"),
        piece(0, "text_delta", text="a"),
        block(1, "tool_use", id="t", name="f", input={"a": 1}),
        piece(1, "input_json_delta", partial_json="{}"),
        block(2, "thinking", thinking="a", signature="b"),
        piece(2, "citations_delta", citation=1),
        stop("end_turn", output_tokens=1),
    ]
    for changed in hostile_copies(events):
        body = "".join(f"data: {json.dumps(e).replace('Infinity', '1e400')}\n\n" for e in changed)
        read(MessageStream, body.encode())


def test_key_echoed_in_an_error_is_masked() -> None:
    stream = MessageStream(secrets=["sk-very-secret-value"])
    stream.feed(b'data: {"type": "error", "error": {"message": "bad key sk-very-secret-value"}}\n\n')
    with pytest.raises(ProviderError) as failed:
        stream.finish_answer()
    assert "very" not in str(failed.value)


@pytest.mark.parametrize(
    ("odd", "told"),
    [("1e999", "not a JSON object"), ("-1e999", "not a JSON object"), ("[" * 900 + "]" * 900, "too deeply")],
)
def test_what_could_not_be_sent_back_is_no_answer(odd: str, told: str) -> None:
    thought = sse(start(input_tokens=1), block(0, "thinking", thinking="t", odd="@"), stop("end_turn"), END)
    failed = failure_of(MessageStream, thought.replace(b'"@"', odd.encode()))
    assert failed.kind == "bad_payload"
    assert told in failed.message
