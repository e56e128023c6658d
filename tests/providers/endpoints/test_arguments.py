from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.base import ToolCall
from providers.endpoints.arguments import (
    INVALID_JSON,
    MAX_NESTING,
    build_tool_call,
    encode_arguments,
    parse_model_json,
    render_call_arguments,
)


@pytest.mark.parametrize("raw", ["", " ", "null", " null\n"])
def test_nothing_is_an_empty_object(raw: str) -> None:
    assert build_tool_call("c", "f", raw).arguments == {}


@pytest.mark.parametrize("text", ["{", "NaN", "1e999", "[-1e999]", '{"a": Infinity}', "[" * 100_000, "9" * 5000])
def test_text_beyond_json_or_all_measure_is_invalid(text: str) -> None:
    assert parse_model_json(text) is INVALID_JSON


def test_null_is_a_value() -> None:
    assert parse_model_json("null") is None


def test_arguments_that_no_writer_could_write_again_are_refused() -> None:
    def nested(depth: int) -> str:
        return '{"a":' * depth + "1" + "}" * depth

    assert build_tool_call("c", "f", nested(MAX_NESTING)).problem is None
    assert build_tool_call("c", "f", nested(MAX_NESTING + 1)).problem == "nested_too_deeply"


@pytest.mark.parametrize(
    ("call", "sent"),
    [
        (ToolCall(id="c", name="f", arguments=None, raw="{", problem="invalid_json"), "{}"),
        (ToolCall(id="c", name="f", arguments={"a": 1}, raw='{"a" : 1}'), '{"a" : 1}'),
        (ToolCall(id="c", name="f", arguments={"a": "é"}), '{"a": "é"}'),
    ],
)
def test_arguments_are_written_as_they_were_or_as_an_empty_object(call: ToolCall, sent: str) -> None:
    assert render_call_arguments(call) == sent


def test_arguments_that_came_as_a_value_become_their_text() -> None:
    assert [encode_arguments(given) for given in (None, "{", {"a": "é"}, 1)] == ["", "{", '{"a": "é"}', "1"]
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert parse_model_json(encode_arguments(deep)) is INVALID_JSON


@given(st.text())
def test_any_text_is_arguments_or_a_problem(raw: str) -> None:
    call = build_tool_call("c", "f", raw)
    assert (call.arguments is None) == (call.problem is not None)
    assert call.raw == raw
