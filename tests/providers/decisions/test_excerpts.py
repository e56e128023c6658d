import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.decisions.excerpts import MAX_LINE_CHARS, MAX_VALUE_CHARS, render_line, render_value, shorten_value


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain añ😀", "plain añ😀"),
        ("a\nb\tc", "a\\u000ab\\u0009c"),
        ("\x1b[2J\x9b\u202e\ud800", "\\u001b[2J\\u009b\\u202e\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("\uffff", "\\uffff"),
        ("x" * MAX_LINE_CHARS, "x" * 300),
        ("x" * (MAX_LINE_CHARS + 1), "x" * 299 + "…"),
    ],
)
def test_a_text_is_shown_on_one_line_and_tame(text: str, shown: str) -> None:
    assert render_line(text) == shown


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"a": [1, None, "ñ"]}, '{"a": [1, null, "ñ"]}'),
        ("x" * 78, '"' + "x" * 78 + '"'),
        ("x" * 79, '"' + "x" * 78 + "…"),
        ({1, 2}, "a value that is not JSON (set)"),
    ],
)
def test_a_value_is_shown_as_json(given: Any, shown: str) -> None:
    assert render_value(given) == shown


@pytest.mark.parametrize(
    ("given", "short"),
    [
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 199 + "…"),
        (list(range(20)), list(range(20))),
        (list(range(22)), [*range(20), "… 2 more"]),
        ({str(n): n for n in range(20)}, {str(n): n for n in range(20)}),
        ({str(n): n for n in range(22)}, {**{str(n): n for n in range(20)}, "…": "2 more"}),
        ([[[[[[1]]]]]], [[[[[[1]]]]]]),
        ([[[[[[[1]]]]]]], [[[[[["…"]]]]]]),
        ([[[[[[[]]]]]]], [[[[[[[]]]]]]]),
        ({"k" * 300: 1}, {"k" * 199 + "…": 1}),
        (2**63 - 1, 2**63 - 1),
        (2**63, "0x8000000000000000"),
        (True, True),
        (None, None),
        (0.5, 0.5),
    ],
)
def test_a_value_is_kept_as_a_value_in_little_room(given: Any, short: Any) -> None:
    assert shorten_value(given) == short


def test_a_value_that_is_large_all_the_same_is_the_beginning_of_its_text() -> None:
    short = shorten_value([["x" * 150] * 20])

    assert isinstance(short, str)
    assert len(short) == MAX_VALUE_CHARS
    assert short.startswith('[["xxx')


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=300), inner, max_size=4),
    max_leaves=40,
)


@given(JSON)
def test_what_is_shown_of_any_value_is_short(given: Any) -> None:
    assert len(render_line(render_value(given))) <= 80
    assert len(json.dumps(shorten_value(given), ensure_ascii=False)) <= MAX_VALUE_CHARS + 1000
