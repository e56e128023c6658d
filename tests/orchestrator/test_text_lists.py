"""Tests of texts for people: lists that name some and count the others, harmless letters, JSON."""

import json

import pytest

from orchestrator.text import format_json, list_lines, list_names, make_harmless


@pytest.mark.parametrize(
    ("names", "at_most", "noun", "text"),
    [
        ([], 2, "", ""),
        (["a", "b"], 2, "", "a, b"),
        (["a", "b", "c"], 2, "", "a, b and 1 more"),
        (["a", "b", "c", "d"], 1, "fields", "a and 3 more fields"),
    ],
)
def test_names_beyond_the_bound_are_counted(names: list[str], at_most: int, noun: str, text: str) -> None:
    assert list_names(iter(names), at_most, noun=noun) == text


def test_lines_beyond_the_bound_are_counted() -> None:
    assert list(list_lines(iter("abc"), 3)) == ["  a", "  b", "  c"]
    assert list(list_lines(iter("abcd"), 2)) == ["  a", "  b", "  and 2 more"]


@pytest.mark.parametrize(
    "letter", ["\u3164", "\u115f", "\u1160", "\uffa0", "\u034f", "\u17b4", "\ufe0f", "\U000e0101", "\u180b"]
)
def test_letters_that_are_not_drawn_are_stripped_on_a_terminal(letter: str) -> None:
    assert make_harmless(f"a{letter}b") == "ab"


@pytest.mark.parametrize("letter", ["\u200b", "\u202e", "\u2065", "\ufeff", "\u00ad", "\U000e0041"])
def test_invisible_characters_are_escaped_on_a_terminal(letter: str) -> None:
    assert make_harmless(f"a{letter}b").startswith("a\\")


@pytest.mark.parametrize(
    "text", ["\x9b31m", "\u202eevil", "\u3164", "\x85", "\u2028", "é", "\ud800", "\U0001f600", "\x7f\x00"]
)
def test_json_for_people_is_ascii_and_reads_back(text: str) -> None:
    for written in (
        format_json({text: [text]}),
        format_json({text: [text]}, indent=2),
        format_json(text, compact=True),
    ):
        assert written.isascii()
        assert written.replace("\n", "").replace("\x7f", "").isprintable()
    assert json.loads(format_json({text: [text]})) == {text: [text]}


def test_json_for_people_holds_no_number_that_json_lacks() -> None:
    with pytest.raises(ValueError, match="JSON"):
        format_json(float("nan"))
