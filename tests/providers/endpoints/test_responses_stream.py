import json
from collections.abc import Mapping
from typing import Any

import pytest

from providers.base import Answer
from providers.endpoints.responses_stream import ResponseStream
from providers.usage import Usage
from tests.providers.endpoints.wire import (
    answer_of,
    failure_of,
    hostile_copies,
    read,
)

# --- parts ------------------------------------------------------------------------------------------------------


def sse(*events: dict[str, Any]) -> bytes:
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode()


def event(kind: str, index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "output_index": index, **fields}


def completed(status: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": {"status": status, "model": "m", **fields}}


def call(**fields: Any) -> dict[str, str]:
    return {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "", **fields}


def message(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}], **fields}


def answer(*events: dict[str, Any], end: dict[str, Any] | None = None) -> Answer:
    return answer_of(ResponseStream, sse(*events, end or completed()))


def calls_of(*events: dict[str, Any]) -> list[tuple[str, str, Mapping[str, Any]]]:
    return [(c.id, c.name, c.arguments) for c in answer(*events).calls]


def test_calls_are_told_apart_by_their_place_and_answered_by_their_call_id() -> None:
    assert calls_of(
        event("output_item.added", 0, item=call(call_id="a")),
        event("output_item.added", 1, item=call(call_id="b")),
        event("function_call_arguments.delta", 1, item_id="rotated", delta='{"y"'),
        event("function_call_arguments.delta", 0, item_id="also", delta='{"x":1}'),
        event("function_call_arguments.delta", 1, item_id="again", delta=":2}"),
    ) == [("a", "f", {"x": 1}), ("b", "f", {"y": 2})]


def test_whole_arguments_replace_what_came_in_pieces() -> None:
    assert calls_of(
        event("output_item.added", item=call()),
        event("function_call_arguments.delta", delta='{"x":'),
        event("function_call_arguments.done", arguments='{"x":2}'),
    ) == [("c", "f", {"x": 2})]
    assert calls_of(
        event("output_item.added", item=call()),
        event("function_call_arguments.delta", delta='{"x":'),
        event("output_item.done", item=call(arguments='{"x":3}')),
    ) == [("c", "f", {"x": 3})]


def test_calls_without_arguments_have_an_empty_object() -> None:
    assert calls_of(event("output_item.done", item=call())) == [("c", "f", {})]


def test_text_that_came_in_pieces_is_not_repeated_by_its_whole() -> None:
    got = answer(
        event("output_text.delta", delta="he"),
        event("output_text.delta", delta="llo"),
        event("output_text.done", text="hello"),
        event("output_item.done", item=message("hello")),
        end=completed(output=[message("hello")]),
    )
    assert (got.text, got.finish) == ("hello", "stop")


def test_text_that_only_the_end_holds_is_read() -> None:
    got = answer(end=completed(output=[message("hello"), call(arguments='{"a":1}')]))
    assert (got.text, got.finish, got.calls[0].arguments) == ("hello", "tool_calls", {"a": 1})


def test_items_that_the_end_tells_again_in_other_places_are_not_taken_twice() -> None:
    got = answer(
        event("output_item.done", 0, item=call(arguments='{"a":1}')),
        end=completed(output=[{"type": "reasoning", "summary": []}, call(arguments='{"a":1}')]),
    )
    assert [c.id for c in got.calls] == ["c"]


def test_items_without_a_place_follow_each_other() -> None:
    events: list[dict[str, Any]] = [
        {"type": "response.output_item.added", "item": call(call_id="a")},
        {"type": "response.function_call_arguments.delta", "delta": '{"x":1}'},
        {"type": "response.output_item.added", "item": call(call_id="b")},
        {"type": "response.function_call_arguments.delta", "delta": '{"y":2}'},
    ]
    assert calls_of(*events) == [("a", "f", {"x": 1}), ("b", "f", {"y": 2})]


def test_reasoning_is_read_from_summaries_and_from_texts() -> None:
    assert answer(event("reasoning_summary_text.delta", delta="hm")).reasoning == "hm"
    assert answer(event("reasoning_text.delta", delta="hm")).reasoning == "hm"
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    assert answer(event("output_item.done", item=item)).reasoning == "hm"


def test_refusal_is_a_finish_of_its_own() -> None:
    got = answer(event("refusal.delta", delta="I will"), event("refusal.delta", delta=" not"))
    assert (got.refusal, got.finish, got.text) == ("I will not", "refusal", "")


@pytest.mark.parametrize(
    ("reason", "finish"), [("max_output_tokens", "length"), ("content_filter", "content_filter"), ("new", "length")]
)
def test_incomplete_answer_says_what_cut_it(reason: str, finish: str) -> None:
    got = answer(end=completed("incomplete", incomplete_details={"reason": reason}))
    assert (got.finish, got.finish_raw) == (finish, reason)


# --- what goes back ---------------------------------------------------------------------------------------------

THOUGHT = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gAAA"}


def test_encrypted_reasoning_is_kept_with_its_place() -> None:
    got = answer(
        event("output_item.done", 0, item=THOUGHT),
        event("output_item.done", 1, item=call()),
        event("output_item.done", 2, item=message("hi", phase="commentary")),
    )
    assert got.continuation == {"items": [THOUGHT, {"type": "call"}, message("hi", phase="commentary")]}


def test_reasoning_that_the_endpoint_would_have_to_look_up_is_not_kept() -> None:
    got = answer(event("output_item.done", item={"type": "reasoning", "id": "rs", "summary": []}))
    assert got.continuation is None


def test_text_and_calls_alone_need_no_continuation() -> None:
    got = answer(event("output_item.done", 0, item=message("x")), event("output_item.done", 1, item=call()))
    assert got.continuation is None


# --- ends and errors --------------------------------------------------------------------------------------------


def test_done_that_a_gateway_adds_changes_nothing() -> None:
    body = sse(event("output_text.delta", delta="x"), completed()) + b"data: [DONE]\n\n"
    assert answer_of(ResponseStream, body).text == "x"


def test_stream_without_its_last_event_is_truncated_though_a_gateway_says_done() -> None:
    error = failure_of(ResponseStream, sse(event("output_text.delta", delta="x")), b"data: [DONE]\n\n")
    assert (error.kind, error.retryable, error.text) == ("truncated", True, "x")


@pytest.mark.parametrize(
    ("told", "kind", "retryable"),
    [
        ({"code": "server_error", "message": "x"}, "server_error", True),
        ({"code": "rate_limit_exceeded", "message": "x"}, "rate_limit", True),
        ({"code": "context_length_exceeded", "message": "x"}, "context_length", False),
        (None, "server_error", True),
    ],
)
def test_failed_response_is_an_error_with_what_it_cost(told: dict[str, Any] | None, kind: str, retryable: bool) -> None:
    error = failure_of(ResponseStream, sse(completed("failed", error=told, usage={"input_tokens": 5})))
    assert (error.kind, error.retryable, error.usage, error.model) == (kind, retryable, Usage(input=5), "m")


def test_flat_error_event_is_an_error() -> None:
    body = sse({"type": "error", "code": "insufficient_quota", "message": "no money", "param": None})
    assert failure_of(ResponseStream, body).kind == "quota"


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"error": {"code": "model_not_found", "message": "x"}}, "model_not_found"),
        ({"status": "failed", "output": [], "error": {"code": "server_error", "message": "x"}}, "server_error"),
        ({"status": "in_progress", "output": []}, "truncated"),
        ({"ok": True}, "bad_payload"),
    ],
)
def test_document_that_is_no_answer_is_an_error(document: dict[str, Any], kind: str) -> None:
    assert failure_of(ResponseStream, json.dumps(document).encode()).kind == kind


def test_document_in_place_of_a_stream_reads_the_same() -> None:
    document = {
        "object": "response",
        "status": "completed",
        "model": "m",
        "output": [THOUGHT, message("hi"), call(arguments='{"a":1}')],
        "usage": {
            "input_tokens": 3,
            "input_tokens_details": {"cached_tokens": 2},
            "output_tokens": 2,
            "output_tokens_details": {"reasoning_tokens": 1},
        },
        "error": None,
    }
    got = answer_of(ResponseStream, json.dumps(document, indent=1).encode())
    assert (got.text, got.finish, got.model) == ("hi", "tool_calls", "m")
    assert got.usage == Usage(input=3, output=2, cached=2, reasoning=1)
    assert got.continuation["items"][0] == THOUGHT


# --- usage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("usage", [None, {}])
def test_missing_usage_is_none_and_noted(usage: dict[str, Any] | None) -> None:
    got = answer(end=completed(usage=usage))
    assert (got.usage, got.notes) == (None, ("usage_unreported",))


@pytest.mark.parametrize("absurd", [-1, "12", 1e12, True, [], {}])
def test_absurd_number_is_dropped_and_noted(absurd: Any) -> None:
    got = answer(end=completed(usage={"input_tokens": absurd, "output_tokens": 2}))
    assert (got.usage, got.notes) == (Usage(output=2), ("usage_implausible",))


def test_values_of_the_wrong_type_never_crash_the_reader() -> None:
    events = [
        event("output_item.added", item=call()),
        event("function_call_arguments.delta", delta="{}"),
        event("output_item.done", 1, item=message("x")),
        event("output_item.done", 2, item=THOUGHT | {"summary": [{"text": "x"}]}),
        completed("incomplete", incomplete_details={"reason": "x"}, output=[call()], usage={"input_tokens": 1}),
    ]
    for changed in hostile_copies(events):
        body = "".join(f"data: {json.dumps(e).replace('Infinity', '1e400')}\n\n" for e in changed)
        read(ResponseStream, body.encode())
