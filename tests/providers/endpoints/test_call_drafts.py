"""Tests that pieces of parallel calls are assigned to the right call, however a gateway numbers them."""

import json
from typing import Any

import pytest

from providers.endpoints.dialects.call_drafts import CallDraft
from providers.endpoints.openai_stream import ChatStream
from tests.providers.endpoints.wire import answer_of

Piece = dict[str, Any]


def piece(name: str | None = None, arguments: Any = None, **fields: Any) -> Piece:
    function = {} if name is None else {"name": name}
    return {**fields, "function": function | ({} if arguments is None else {"arguments": arguments})}


def calls_of(*chunks: list[Piece]) -> list[tuple[str, Any]]:
    lines = [
        f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'tool_calls': pieces}}]})}\n\n" for pieces in chunks
    ]
    end = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'
    got = answer_of(ChatStream, "".join([*lines, end]).encode())
    assert len({call.id for call in got.calls}) == len(got.calls)
    return [(call.name, call.arguments) for call in got.calls]


TWO = [("f", {"a": 1}), ("f", {"b": 2})]
A, B = '{"a": 1}', '{"b": 2}'


@pytest.mark.parametrize(
    "chunks",
    [
        [[piece("f", A, index=0)], [piece("f", B, index=0)]],
        [[piece("f", A, index=0, id="")], [piece("f", B, index=0, id="")]],
        [[piece("f", A)], [piece("f", B)]],
        [[piece("f", A, index=0), piece("f", B, index=0)]],
        [[piece("f", A), piece("f", B)]],
        [[piece("f", {"a": 1}, index=0), piece("f", {"b": 2}, index=0)]],
        [[piece("f", "", index=0)], [piece(None, A, index=0)], [piece("f", "", index=0)], [piece(None, B, index=0)]],
        [[piece("f", index=0, id="x")], [piece(None, A, index=0)], [piece("f", B, index=0, id="y")]],
        [[piece("f", index=0, id="x"), piece("f", index=1, id="y")], [piece(None, B, id="y"), piece(None, A, id="x")]],
        [
            [piece("f", index=0, id="x")],
            [piece("f", index=0, id="y")],
            [piece(None, A, index=0, id="x")],
            [piece(None, B, index=0, id="y")],
        ],
        [[piece("f", "{", index=0)], [piece("f", '"a": 1}', index=0)], [piece("f", B, index=0)]],
        [[piece("f", A, index=None, id=None)], [piece("f", B, index=None, id=None)]],
        [[piece("f", A, index=True)], [piece("f", B, index="0")]],
    ],
)
def test_two_calls_stay_two(chunks: list[list[Piece]]) -> None:
    assert calls_of(*chunks) == TWO


@pytest.mark.parametrize(
    "chunks",
    [
        [[piece("f", "", index=0, id="x")], [piece("f", A, index=0, id="x")]],
        [[piece("f", '{"a"', index=0, id="x")], [piece("f", ": 1}", index=0, id="x")]],
        [[piece("f", '{"a"')], [piece("f", ": 1}")]],
        [[piece("f", A, index=0, id="x")], [piece("f", "", index=0, id="x")]],
        [[piece("f", A, index=0)], [piece("", "", index=0)]],
        [[piece("f", "", index=0)], [piece(None, '{"a": ', index=0)], [piece(None, "1}", index=0, id="late")]],
    ],
)
def test_one_call_stays_one(chunks: list[list[Piece]]) -> None:
    assert calls_of(*chunks) == TWO[:1]


def test_other_name_without_an_id_is_another_call() -> None:
    assert calls_of([piece("f", "", index=0)], [piece("g", A, index=0)]) == [("f", {}), ("g", {"a": 1})]


@pytest.mark.parametrize(
    ("fragments", "whole"),
    [
        (["{}"], True),
        (['{"a": "}', '"}'], True),
        (['{"a": "\\', '""}'], True),
        (['{"a": {"b": [1]', "}}"], True),
        (['{"a": "{"'], False),
        (["{"], False),
        ([], False),
        ([""], False),
    ],
)
def test_arguments_are_whole_when_all_braces_are_closed(fragments: list[str], whole: bool) -> None:
    draft = CallDraft(index=0)
    for fragment in fragments:
        draft.extend_draft(piece("f", fragment))
        draft.has_whole_arguments()
    assert draft.has_whole_arguments() is whole


def test_custom_call_has_its_raw_text_even_if_it_looks_like_json() -> None:
    chunks = [{"index": 0, "id": "x", "type": "custom", "custom": {"name": "shell", "input": "{}"}}]
    body = {"choices": [{"index": 0, "message": {"tool_calls": chunks}, "finish_reason": "tool_calls"}]}
    (call,) = answer_of(ChatStream, json.dumps(body).encode()).calls
    assert (call.name, call.arguments, call.raw, call.problem) == ("shell", None, "{}", "raw_text")
