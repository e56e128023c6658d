"""Cutting texts so that no half of a word is left."""

from hypothesis import given
from hypothesis import strategies as st

from store.documents.text import MAX_WORD_CHARACTERS, drop_first_word, drop_last_word


def test_a_word_at_the_cut_goes() -> None:
    assert drop_last_word("the key is sk-ant-api0") == "the key is "
    assert drop_first_word("ant-api03 was the key") == " was the key"


def test_a_cut_in_json_takes_the_last_word_only() -> None:
    assert drop_last_word('{"code":500,"key":"abcdef') == '{"code":500,"key":"'


def test_a_word_that_is_whole_stays() -> None:
    assert drop_last_word("it is whole. ") == "it is whole. "
    assert drop_first_word(" it is whole") == " it is whole"


def test_of_one_long_word_only_the_end_goes() -> None:
    assert drop_last_word("x" * 1000) == "x" * (1000 - MAX_WORD_CHARACTERS)
    assert drop_first_word("x" * 1000) == "x" * (1000 - MAX_WORD_CHARACTERS)


@given(st.text(max_size=30), st.text("abc=+/%-_.:", min_size=1, max_size=MAX_WORD_CHARACTERS), st.integers(min_value=1))
def test_no_part_of_a_cut_word_is_left(before: str, word: str, at: int) -> None:
    """Whatever stands before it."""
    cut = f"{before} {word[: at % len(word) + 1]}"
    assert drop_last_word(cut) == f"{before} "
    assert drop_first_word(f"{word} {before}") == f" {before}"
