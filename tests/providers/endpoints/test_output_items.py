"""Tests that events of a Responses stream are assigned to the right item, and that the final snapshot fills gaps."""

import json
from typing import Any

import pytest

from providers.base import Answer
from providers.endpoints.responses_stream import ResponseStream
from tests.providers.endpoints.wire import answer_of

Event = dict[str, Any]


def event(kind: str, **fields: Any) -> Event:
    return {"type": f"response.{kind}", **fields}


def item(kind: str, content: Event, **fields: Any) -> Event:
    return event(f"output_item.{kind}", output_index=0, item=content, **fields)


def call(n: int, arguments: str = "", **fields: Any) -> Event:
    given = {"type": "function_call", "id": f"fc{n}", "call_id": f"c{n}", "name": f"f{n}", "arguments": arguments}
    return given | fields


def message(*texts: str, **fields: Any) -> Event:
    parts = [{"type": "output_text", "text": text} for text in texts]
    return {"type": "message", "id": "m", "role": "assistant", "content": parts, **fields}


def answer(*events: Event, output: list[Event] | None = None) -> Answer:
    end = event("completed", response={"status": "completed", "output": output or []})
    return answer_of(ResponseStream, "".join(f"data: {json.dumps(one)}\n\n" for one in (*events, end)).encode())


def arguments(n: int, piece: str, kind: str = "delta", **fields: Any) -> Event:
    name = "delta" if kind == "delta" else "arguments"
    return event(f"function_call_arguments.{kind}", output_index=0, item_id=f"fc{n}", **{name: piece}, **fields)


A, B = '{"a": 1}', '{"b": 2}'


@pytest.mark.parametrize(
    "events",
    [
        [item("added", call(1)), item("added", call(2)), item("done", call(1, A)), item("done", call(2, B))],
        [item("added", call(1)), item("done", call(1, A)), item("added", call(2)), item("done", call(2, B))],
        [item("done", call(1, A)), item("done", call(2, B))],
        [item("added", call(1, A)), item("added", call(2, B))],
        [item("added", call(1)), item("added", call(2)), arguments(2, B), arguments(1, A)],
        [item("added", call(1)), item("added", call(2)), arguments(2, B, "done"), arguments(1, A, "done")],
        [item("added", call(1)), arguments(1, A), item("added", call(2)), arguments(2, B)],
        [item("added", call(1, id="x")), item("done", call(1, A, id="y")), item("done", call(2, B, id="y"))],
        [item("done", call(1, A, id="")), item("done", call(2, B, id=""))],
        [item("done", call(1, A, id="x")), item("done", call(2, B, id="x"))],
    ],
)
def test_two_items_at_one_place_are_two_calls(events: list[Event]) -> None:
    got = answer(*events, output=[])
    assert [(c.id, c.name, c.arguments) for c in got.calls] == [("c1", "f1", {"a": 1}), ("c2", "f2", {"b": 2})]


@pytest.mark.parametrize(
    "events",
    [
        [item("added", call(1)), item("done", call(1, A))],
        [item("added", call(1)), item("done", call(1, A)), item("done", call(1, A))],
        [item("added", call(1)), item("added", call(1)), arguments(1, A)],
        [item("added", call(1, id="x")), arguments(9, A), item("done", call(1, A, id="z"))],
        [arguments(1, A), item("done", call(1, A))],
        [item("added", call(1)), arguments(1, A[:3]), arguments(1, A[3:]), arguments(1, A, "done")],
        [item("added", call(1, call_id="")), item("done", call(1, A))],
    ],
)
def test_one_item_stays_one_call(events: list[Event]) -> None:
    for output in ([], [call(1, A)]):
        assert [(c.id, c.name, c.arguments) for c in answer(*events, output=output).calls] == [("c1", "f1", {"a": 1})]


@pytest.mark.parametrize(
    "events",
    [
        [],
        [item("added", message())],
        [item("added", message()), item("done", message())],
        [event("output_text.done", output_index=0, item_id="m", text="hello")],
        [event("output_text.done", output_index=0, item_id="m", content_index=0, text="hello")],
        [event("content_part.done", output_index=0, content_index=0, part={"type": "output_text", "text": "hello"})],
        [
            event("output_text.delta", output_index=0, delta="hel"),
            event("output_text.delta", output_index=0, delta="lo"),
        ],
        [
            event("output_text.delta", output_index=0, delta="hello"),
            event("output_text.done", output_index=0, text="hello"),
        ],
        [
            event("output_text.delta", output_index=0, content_index=0, delta="hello"),
            event("content_part.done", output_index=0, content_index=0, part={"type": "output_text", "text": "hello"}),
            item("done", message("hello")),
        ],
        [item("done", message("hello"))],
        [item("done", message("hello", id="other"))],
    ],
)
def test_text_is_read_once_wherever_it_stands(events: list[Event]) -> None:
    assert answer(*events, output=[message("hello")]).text == "hello"


def test_done_alone_is_enough_without_a_snapshot() -> None:
    assert answer(event("output_text.done", output_index=0, text="hello")).text == "hello"
    assert answer(event("refusal.done", output_index=0, refusal="no")).refusal == "no"


def test_second_part_that_was_not_streamed_is_filled() -> None:
    piece = event("output_text.delta", output_index=0, content_index=0, delta="a")
    assert answer(piece, item("done", message("a", "b"))).text == "ab"
    assert answer(piece, output=[message("a", "b")]).text == "ab"


def test_snapshot_fills_arguments_and_reasoning() -> None:
    thought = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": None}
    whole = thought | {"summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "E"}
    got = answer(
        event("output_item.added", output_index=0, item=thought),
        event("output_item.added", output_index=1, item=call(1)),
        output=[whole, call(1, A)],
    )
    assert (got.reasoning, got.calls[0].arguments) == ("hm", {"a": 1})
    assert got.continuation["items"][0]["encrypted_content"] == "E"


def test_refusal_is_read_once() -> None:
    refused = {"type": "message", "id": "m", "content": [{"type": "refusal", "refusal": "no"}]}
    piece = event("refusal.delta", output_index=0, content_index=0, delta="no")
    assert answer(piece, item("done", refused), output=[refused]).refusal == "no"
    assert answer(output=[refused]).refusal == "no"
