import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from store.documents.positions import MAX_BYTES, format_problem
from store.documents.yaml import MAX_NODES, YamlDocument, parse_yaml, read_yaml
from store.errors import UsageError
from tests.store.sql.places import assert_places

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
LOOKS_LIKE_A_NUMBER = re.compile(r"[-+.]?[0-9][0-9a-fA-FxoeE.+-]*|[-+]?\.(?i:inf|nan)")
"""Texts that YAML 1.1, which `yaml` writes, leaves bare, and that are numbers in 1.2."""
BREAKS = re.compile("[\x85\u2028\u2029]")
"""Ends of lines in YAML 1.1, which `yaml` does not escape where it may write more than ASCII."""


def read(text: bytes | str, **options: Any) -> YamlDocument:
    return parse_yaml(text.encode() if isinstance(text, str) else text, name="f.yaml", **options)


def refused(text: bytes | str) -> str:
    with pytest.raises(UsageError) as caught:
        read(text)
    return str(caught.value)


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(text for item in value.values() for text in texts(item))]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


@given(value=VALUES, flow=st.booleans(), plain=st.booleans(), width=st.sampled_from([20, 80, 1000]))
def test_what_is_written_as_yaml_is_read_back(value: Any, flow: bool, plain: bool, width: int) -> None:
    assume(not any(LOOKS_LIKE_A_NUMBER.fullmatch(text) or (plain and BREAKS.search(text)) for text in texts(value)))
    assert read(yaml.safe_dump(value, default_flow_style=flow, allow_unicode=plain, width=width)).value == value


@given(value=VALUES, indent=st.sampled_from([None, 1]))
def test_json_is_yaml_where_no_character_needs_two_escapes(value: Any, indent: int | None) -> None:
    assume(not any(ord(char) > 0xFFFF for text in texts(value) for char in text))
    assume(not any(len(text) > 1000 for text in texts(value)))
    assert read(json.dumps(value, indent=indent)).value == value


@given(value=VALUES)
def test_every_value_has_a_place_where_it_can_be_read_again(value: Any) -> None:
    assume(not any(ord(char) > 0xFFFF for text in texts(value) for char in text))
    document = read(text := json.dumps(value, indent=1))
    assert_places(document, text, value)


@given(
    raw=st.binary(max_size=60)
    | TEXT.map(str.encode)
    | st.text("a-:[]{},&*!|>'\"\n #?%@<x1", max_size=40).map(str.encode)
)
def test_any_bytes_are_a_value_or_one_line_with_a_place(raw: bytes) -> None:
    said = ""
    try:
        json.dumps(read(raw).value, allow_nan=False)
    except UsageError as error:
        said = str(error)
    assert not said or (re.match(r"f\.yaml:[0-9]+:[0-9]+: .", said) and said.isprintable())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((word, word) for word in ("yes", "no", "on", "off", "Yes", "NO", "y", "n")),
        *((word, True) for word in ("true", "True", "TRUE")),
        *((word, False) for word in ("false", "False", "FALSE")),
        *((word, None) for word in ("", "~", "null", "Null", "NULL")),
        ("0777", 777),
        ("0o17", 15),
        ("0x1F", 31),
        ("+3", 3),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("12:30", "12:30"),
        ("2026-11-30", "2026-11-30"),
        ("1_000", "1_000"),
        ("1.2.3", "1.2.3"),
        ("=", "="),
        ("'1'", "1"),
        ('"true"', "true"),
        ("!!str 1", "1"),
        ("|\n  a\n  b\n", "a\nb\n"),
        (">-\n  a\n  b\n", "a b"),
    ],
)
def test_plain_scalars_are_those_of_the_core_schema(text: str, value: float | str | None) -> None:
    found = read(text).value
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2\n", "f.yaml:4:3: duplicate key 'c' (first at line 3)"),
        ("{a: 1, 'a': 2}", "f.yaml:1:8: duplicate key 'a' (first at line 1)"),
        ("a: &a\n  b: *a\n", "f.yaml:1:4: an alias inside the value that it refers to"),
        ("a: *b", "f.yaml:1:4: no anchor &b is defined before this alias"),
        ("a: !!python/name:os.system x", "f.yaml:1:4: tags such as tag:yaml.org,2002:python/name:os.system are not "),
        ("a: !secret x", "f.yaml:1:4: tags such as !secret are not supported"),
        ("a: !!int '3'", "f.yaml:1:4: tags such as tag:yaml.org,2002:int are not supported"),
        ("a: !!set {b}", "f.yaml:1:4: tags such as tag:yaml.org,2002:set are not supported"),
        ("a: &a {b: 1}\nc:\n  <<: *a\n", "f.yaml:3:3: merge keys (<<) are not supported; write the keys out"),
        ("1: a", 'f.yaml:1:1: keys are text: write "1" in quotes'),
        ("true: a", 'f.yaml:1:1: keys are text: write "true" in quotes'),
        ("? [a]\n: b", "f.yaml:1:3: expected a key, got an object or an array"),
        (
            "p: {{ input }}",
            "f.yaml:1:5: expected a key, got an object or an array (quote a text that begins with {, [ or *",
        ),
        ("a: .nan", "f.yaml:1:4: .nan is not a JSON number (quote it if it is text)"),
        ("a: -.Inf", "f.yaml:1:4: -.Inf is not a JSON number"),
        ("a: 1e999", "f.yaml:1:4: 1e999 is too large for a number"),
        ("a: " + "1" * 401, "f.yaml:1:4: expected at most 400 characters of a number"),
        ("a: 1\n---\nb: 2", "f.yaml:2:1: a second document begins here; expected one per file"),
        ("a:\n\tb: 1", "f.yaml:2:1: found character that cannot start any token (a tab; indent with spaces)"),
        ("a: @b", "f.yaml:1:4: found character that cannot start any token (quote a text that begins with @)"),
        ("a: b: c", "f.yaml:1:5: mapping values are not allowed in this context (quote a text that contains ': ')"),
        ("b: 2\na: [1, 2", "f.yaml:2:9: did not find expected ',' or ']' (while parsing a flow sequence, which begins"),
        ("é: é\nb: [é, }", "f.yaml:2:8: did not find expected node content"),
        ('a: "\\ud800"', "f.yaml:1:7: found invalid Unicode character escape code"),
        ("é: \x07", "f.yaml:1:4: write the character U+0007 as an escape"),
        ("a: b\u2028c", "f.yaml:1:5: write the character U+2028 as an escape"),
        (b"a: 1\nb: \xff", "f.yaml:2:4: not UTF-8 (byte 0xff)"),
        (b"a: \xed\xa0\x80", "f.yaml:1:4: not UTF-8 (byte 0xed)"),
    ],
)
def test_what_would_surprise_is_refused_where_it_stands(text: bytes | str, message: str) -> None:
    assert refused(text).startswith(message)


def test_a_depth_of_100_is_read_and_one_more_refused() -> None:
    assert read("[" * 100 + "1" + "]" * 100).value
    assert refused("[" * 101 + "1" + "]" * 101) == "f.yaml:1:102: nested deeper than 100"
    assert refused("- " * 101 + "1") == "f.yaml:1:203: nested deeper than 100"
    assert "nesting" in refused("[" * 1_000_000)


def test_aliases_count_with_all_that_they_stand_for() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10))
    assert refused(bomb).endswith(f"more than {MAX_NODES:,} values and keys, counting each alias as a copy")
    assert read("a: &a [1, 2]\nb: *a\nc: &a 3\nd: *a").value == {"a": [1, 2], "b": [1, 2], "c": 3, "d": 3}


def test_an_alias_that_is_used_twice_is_a_value_of_its_own_each_time() -> None:
    value = read("a: &a {n: 1}\nb: *a").value
    value["a"]["n"] = 2
    assert value["b"] == {"n": 1}


def test_too_many_values_and_too_large_files_are_refused(tmp_path: Path) -> None:
    assert refused("[" + "1," * (MAX_NODES + 1) + "]").endswith("more than 200,000 values and keys")
    file = tmp_path / "large.yaml"
    with file.open("wb") as stream:
        os.truncate(stream.fileno(), MAX_BYTES + 1)
    with pytest.raises(UsageError, match="larger than 32 MiB"):
        read_yaml(file)


def test_files_that_cannot_be_read_are_told_in_one_line(tmp_path: Path) -> None:
    for file, message in ((tmp_path / "no.yaml", "x: no such file"), (tmp_path, "x: not a file")):
        with pytest.raises(UsageError) as caught:
            read_yaml(file, name="x")
        assert str(caught.value) == message


def test_a_byte_order_mark_and_windows_line_ends_change_no_place() -> None:
    document = read(b"\xef\xbb\xbfa: 1\r\nb:\r\n  - c: 2\r\n")
    assert document.value == {"a": 1, "b": [{"c": 2}]}
    assert document.locate_path(("a",)) == (1, 1)
    assert document.locate_path(("b", 0, "c")) == (3, 5)


def test_a_value_below_an_alias_stands_where_its_text_is() -> None:
    document = read("base: &base\n  tool: Bash\ncase:\n  input: *base\n")
    assert document.locate_path(("case", "input")) == (4, 3)
    assert document.locate_path(("case", "input", "tool")) == (2, 3)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('a: "\\ud800"', "f.yaml:1:4: a lone surrogate"),
        ("a: 1\na: 2", "f.yaml:2:1: duplicate key 'a' (first at line 1)"),
        ("é: é\nb: [é, }", "f.yaml:2:8: "),
        ("[" * 102 + "]" * 102, "f.yaml:1:102: nested deeper than 100"),
    ],
)
def test_without_libyaml_the_same_is_refused_in_the_same_place(
    monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    monkeypatch.setattr(yaml, "__with_libyaml__", False)
    assert refused(text).startswith(told)


def test_an_empty_file_is_null() -> None:
    assert [read(text).value for text in ("", "# nothing\n", "---\n", "---\n...\n")] == [None] * 4


def test_decimals_are_kept_as_they_are_written() -> None:
    value = read("a: 0.10\nb: 1e-7\nc: 3\nd: 1.10", decimals=True).value
    assert {key: str(number) for key, number in value.items()} == {"a": "0.10", "b": "1E-7", "c": "3", "d": "1.10"}


@pytest.mark.parametrize(
    ("text", "line", "column", "place"),
    [
        ("when: a == b", 1, 6, "f:1:12"),
        ("when: 'a == b'", 1, 6, "f:1:13"),
        ('when: "a == b"', 1, 6, "f:1:13"),
        ('when: "a \\u003d= b"', 1, 6, "f:1:1"),
        ("when: |-\n  a == b", 1, 6, "f:2:8"),
        ("when: |\n  a ==\n    b", 2, 3, "f:3:5"),
        ("when: |\n\n  a ==\n  b", 3, 1, "f:4:3"),
        ("when: |  # why\n  a ==\n  b", 2, 1, "f:3:3"),
        ('when: "a ==\n  b"', 1, 6, "f:1:1"),
        ("when: >-\n  a ==\n  b", 1, 6, "f:1:1"),
    ],
)
def test_a_finding_in_a_text_stands_at_its_part_where_the_text_is_on_one_line(
    text: str, line: int, column: int, place: str
) -> None:
    finding = read(text).locate_problem_in_text(
        ("when",), "wrong", line=line, column=column, excerpt="  a == b\n       ^"
    )
    assert format_problem("f", finding) == f"{place}: when: wrong\n  a == b\n       ^"
