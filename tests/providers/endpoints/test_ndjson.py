import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.endpoints.ndjson import NdjsonParser
from providers.errors import ProviderError


def test_lines_end_with_lf_or_crlf_and_blank_ones_are_left_out() -> None:
    parser = NdjsonParser()
    assert parser.feed(b"a\r\n\n \nb\nc") == ["a", "b"]
    assert parser.close() == "c"
    assert parser.close() == ""


def test_bom_and_a_character_cut_in_two_come_out_whole() -> None:
    parser = NdjsonParser()
    body = "\ufeffä\n".encode()
    assert [line for byte in body for line in parser.feed(bytes([byte]))] == ["ä"]


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert NdjsonParser().feed(b"\xff\n") == ["\ufffd"]


def test_line_that_is_too_long_is_refused() -> None:
    parser = NdjsonParser(max_line_bytes=4)
    assert parser.feed(b"1234\n1") == ["1234"]
    with pytest.raises(ProviderError, match="longer than 4 bytes"):
        parser.feed(b"2345")


@given(st.lists(st.text(min_size=1).map(json.dumps)), st.integers(1, 7))
def test_lines_are_the_same_however_they_are_cut(lines: list[str], step: int) -> None:
    body = "".join(f"{line}\n" for line in lines).encode()
    parser = NdjsonParser()
    assert [line for i in range(0, len(body), step) for line in parser.feed(body[i : i + step])] == lines
