import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.documents.positions import MAX_BYTES, format_path, parse_json, read_json
from store.errors import UsageError
from tests.store.sql.places import assert_places

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def refused(text: bytes | str) -> str:
    with pytest.raises(UsageError) as caught:
        parse_json(text.encode() if isinstance(text, str) else text, name="f.json")
    return str(caught.value)


@given(value=VALUES, indent=st.sampled_from([None, 0, 2, "\t"]), plain=st.booleans())
def test_what_json_writes_is_read_back(value: Any, indent: int | str | None, plain: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=plain)
    assert parse_json(text.encode("utf-8", "surrogatepass"), name="f", surrogates=True).value == value


@given(value=VALUES)
def test_every_value_has_a_place_where_it_can_be_read_again(value: Any) -> None:
    text = json.dumps(value, indent=1)
    document = parse_json(text.encode(), name="f", surrogates=True)
    assert_places(document, text, value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1,\n "a": 2}', "f.json:2:2: duplicate key 'a' (first at line 1)"),
        ('{"a": 1,\n}', "f.json:1:8: trailing comma"),
        ("[1,\n 2,\n]", "f.json:2:3: trailing comma"),
        ("[NaN]", "f.json:1:2: expected a value, got NaN"),
        ("[-Infinity]", "f.json:1:2: expected a value, got -Infinity"),
        ("[True]", "f.json:1:2: expected a value, got True (did you mean true?)"),
        ("// note\n{}", "f.json:1:1: expected a value, got // (JSON has no comments)"),
        ("[01]", "f.json:1:2: expected a value, got 01"),
        ("[1e999]", "f.json:1:2: 1e999 is too large for a number"),
        ("[1 2]", "f.json:1:4: expected ',' or ']', got '2'"),
        ('{"a" 1}', "f.json:1:6: expected ':'"),
        ("{1: 2}", 'f.json:1:2: expected a "key"'),
        ('["abc', "f.json:1:2: unterminated string"),
        ('["a\tb"]', "f.json:1:4: invalid control character"),
        (r'["\q"]', r"f.json:1:3: invalid \escape"),
        ("{} {}", "f.json:1:4: expected the end of the document"),
        ("", "f.json:1:1: expected a value, got the end of the file"),
        ('{"a": [1', "f.json:1:9: expected ',' or ']', got the end of the file"),
        (b'{\n "a": "\xff"}', "f.json:2:8: not UTF-8 (byte 0xff)"),
    ],
)
def test_broken_syntax_is_refused_where_it_breaks(text: bytes | str, message: str) -> None:
    assert refused(text) == message


def test_a_depth_of_100_is_read_and_one_more_refused() -> None:
    assert parse_json(b"[" * 100 + b"1" + b"]" * 100, name="f").value
    assert refused("[" * 101 + "1" + "]" * 101) == "f.json:1:102: nested deeper than 100"
    assert "nested deeper than 100" in refused("[" * 200_000)


def test_a_number_without_end_is_refused() -> None:
    assert "expected at most 400 characters of a number" in refused("9" * 5000)


def test_a_lone_surrogate_is_text_only_where_it_is_allowed() -> None:
    text = r'["\ud83d"]'
    assert "a lone surrogate" in refused(text)
    assert parse_json(text.encode(), name="f", surrogates=True).value == ["\ud83d"]
    assert parse_json(rb'["\ud83d\ude00"]', name="f").value == ["\U0001f600"]


def test_a_byte_order_mark_is_skipped_and_does_not_shift_columns() -> None:
    document = parse_json(b'\xef\xbb\xbf{"a": 1}', name="f")
    assert document.locate_path(("a",)) == (1, 2)


def test_a_message_stays_on_one_line_and_shows_no_control_characters() -> None:
    message = refused('{"a\\u001b[31m\\nb": 1, "a\\u001b[31m\\nb": 2}')
    assert "\n" not in message
    assert "\x1b" not in message


def test_findings_are_told_in_the_order_of_the_file_and_once() -> None:
    document = parse_json(b'{"a": 1,\n "b": [2, 3]}', name="f.json")
    findings = [
        document.locate_problem(("b", 1), "y"),
        document.locate_problem(("a",), "x"),
        document.locate_problem(("b", 1), "y"),
    ]
    assert str(document.make_usage_error(findings)) == "f.json:1:2: a: x\nf.json:2:11: b[1]: y"


def test_a_missing_value_is_told_where_it_would_be() -> None:
    document = parse_json(b'{"a":\n {"b": 1}}', name="f")
    assert document.locate_path(("a", "c", "d")) == (1, 2)


def test_paths_are_spelt_as_people_write_them() -> None:
    assert format_path(("tasks", 1, "budget", "maxTurns")) == "tasks[1].budget.maxTurns"
    assert format_path(("a", "odd key", "c")) == 'a["odd key"].c'
    assert format_path(()) == "(document)"


def test_a_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read_json(tmp_path / "missing.json")
    with pytest.raises(UsageError, match="not a file"):
        read_json(tmp_path)
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(UsageError, match="not a file"):
        read_json(tmp_path / "pipe.json")
    with pytest.raises(UsageError, match="cannot be read"):
        read_json(tmp_path / ("x" * 300))
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(MAX_BYTES + 10)
    with pytest.raises(UsageError, match="larger than 32 MiB"):
        read_json(large, name="large.json")
