"""Tests of lists that name some and count the others."""

import pytest

from orchestrator.text import list_lines, list_names


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
