from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.base import ToolCall
from providers.endpoints.arguments import INVALID, MAX_DEPTH, as_text, parsed, tool_call, written


@pytest.mark.parametrize("raw", ["", " ", "null", " null\n"])
def test_nothing_is_an_empty_object(raw: str) -> None:
    assert tool_call("c", "f", raw).arguments == {}


@pytest.mark.parametrize("text", ["{", "NaN", "1e999", "[-1e999]", '{"a": Infinity}', "[" * 100_000, "9" * 5000])
def test_text_beyond_json_or_all_measure_is_invalid(text: str) -> None:
    assert parsed(text) is INVALID


def test_null_is_a_value() -> None:
    assert parsed("null") is None


def test_arguments_that_no_writer_could_write_again_are_refused() -> None:
    def nested(depth: int) -> str:
        return '{"a":' * depth + "1" + "}" * depth

    assert tool_call("c", "f", nested(MAX_DEPTH)).problem is None
    assert tool_call("c", "f", nested(MAX_DEPTH + 1)).problem == "nested_too_deeply"


@pytest.mark.parametrize(
    ("call", "sent"),
    [
        (ToolCall(id="c", name="f", arguments=None, raw="{", problem="invalid_json"), "{}"),
        (ToolCall(id="c", name="f", arguments={"a": 1}, raw='{"a" : 1}'), '{"a" : 1}'),
        (ToolCall(id="c", name="f", arguments={"a": "é"}), '{"a": "é"}'),
    ],
)
def test_arguments_are_written_as_they_were_or_as_an_empty_object(call: ToolCall, sent: str) -> None:
    assert written(call) == sent


def test_arguments_that_came_as_a_value_become_their_text() -> None:
    assert [as_text(given) for given in (None, "{", {"a": "é"}, 1)] == ["", "{", '{"a": "é"}', "1"]
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert parsed(as_text(deep)) is INVALID


@given(st.text())
def test_any_text_is_arguments_or_a_problem(raw: str) -> None:
    call = tool_call("c", "f", raw)
    assert (call.arguments is None) == (call.problem is not None)
    assert call.raw == raw
