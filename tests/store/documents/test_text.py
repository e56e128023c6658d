"""Cutting texts so that no half of a word is left."""

from hypothesis import given
from hypothesis import strategies as st

from store.documents.text import LONGEST_WORD, without_first_word, without_last_word


def test_a_word_at_the_cut_goes() -> None:
    assert without_last_word("the key is sk-ant-api0") == "the key is "
    assert without_first_word("ant-api03 was the key") == " was the key"


def test_a_cut_in_json_takes_the_last_word_only() -> None:
    assert without_last_word('{"code":500,"key":"abcdef') == '{"code":500,"key":"'


def test_a_word_that_is_whole_stays() -> None:
    assert without_last_word("it is whole. ") == "it is whole. "
    assert without_first_word(" it is whole") == " it is whole"


def test_of_one_long_word_only_the_end_goes() -> None:
    assert without_last_word("x" * 1000) == "x" * (1000 - LONGEST_WORD)
    assert without_first_word("x" * 1000) == "x" * (1000 - LONGEST_WORD)


@given(st.text(max_size=30), st.text("abc=+/%-_.:", min_size=1, max_size=LONGEST_WORD), st.integers(min_value=1))
def test_no_part_of_a_cut_word_is_left(before: str, word: str, at: int) -> None:
    """Whatever stands before it."""
    cut = f"{before} {word[: at % len(word) + 1]}"
    assert without_last_word(cut) == f"{before} "
    assert without_first_word(f"{word} {before}") == f" {before}"
