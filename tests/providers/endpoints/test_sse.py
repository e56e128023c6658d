from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.endpoints.sse import SseEvent, SseParser
from providers.errors import ProviderError
from tests.providers.endpoints.wire import samples


def events(*pieces: bytes) -> list[SseEvent]:
    parser = SseParser()
    found = [event for piece in pieces for event in parser.feed(piece)]
    parser.close()
    return found


def data(*pieces: bytes) -> list[str]:
    return [event.data for event in events(*pieces)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_ending_ends_a_line(end: bytes) -> None:
    assert data(end.join([b"data: a", b"data: b", b"", b"data: c", b"", b""])) == ["a\nb", "c"]


def test_crlf_cut_between_its_two_bytes_is_one_line_ending() -> None:
    assert data(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == ["a\nb"]


def test_cr_alone_dispatches_without_waiting_for_what_follows() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\r\r") == [SseEvent("", "a")]


def test_byte_order_mark_is_no_part_of_the_first_field() -> None:
    assert data(b"\xef\xbb\xbfdata: a\n\n") == ["a"]
    assert data(b"\xef", b"\xbb", b"\xbfdata: a\n\n") == ["a"]


def test_one_space_after_the_colon_is_stripped_and_no_more() -> None:
    assert data(b"data:a\n\ndata: a\n\ndata:  a\n\n") == ["a", "a", " a"]


def test_character_cut_in_two_comes_out_whole() -> None:
    body = 'data: "😀é"\n\n'.encode()
    assert data(*(body[i : i + 1] for i in range(len(body)))) == ['"😀é"']


def test_bytes_that_are_no_utf8_become_replacement_characters() -> None:
    assert data(b"data: a\xffb\n\n") == ["a\ufffdb"]


def test_only_ascii_line_ends_end_a_line() -> None:
    text = "a\u2028b\u0085c\x0bd\x0ce"
    assert data(f"data: {text}\n\n".encode()) == [text]


@pytest.mark.parametrize("rest", [b"data: b", b"data: b\n", b"event: x\ndata: b", b"data:b\r", b"data: b\n: end"])
def test_last_event_without_its_blank_line_is_given_at_the_end(rest: bytes) -> None:
    parser = SseParser()
    assert [event.data for event in parser.feed(b"data: a\n\n" + rest)] == ["a"]
    assert [event.data for event in parser.close()] == ["b"]
    assert parser.close() == []


@pytest.mark.parametrize("rest", [b"", b"event: x\n", b": ping", b"dat", b"\n"])
def test_rest_without_data_is_no_event(rest: bytes) -> None:
    parser = SseParser()
    parser.feed(b"data: a\n\n" + rest)
    assert parser.close() == []


def test_comments_are_counted_and_give_no_event() -> None:
    parser = SseParser()
    assert parser.feed(b": ping\n\n:\n\n") == []
    assert parser.comments == 2


def test_event_name_holds_for_one_event() -> None:
    assert events(b"event: error\ndata: a\n\ndata: b\n\n") == [SseEvent("error", "a"), SseEvent("", "b")]


def test_fields_that_mean_nothing_here_are_read_over() -> None:
    assert data(b"id: 1\nretry: 5\nerror: x\n data: no\nnocolon\ndata: a\n\n") == ["a"]


def test_data_field_without_a_value_is_an_empty_line() -> None:
    assert data(b"data\n\n") == [""]
    assert data(b"data\ndata\n\n") == ["\n"]


def test_event_without_data_is_none() -> None:
    assert data(b"event: x\n\n") == []


def test_line_beyond_the_cap_is_refused_while_it_arrives() -> None:
    parser = SseParser(max_line_bytes=10)
    parser.feed(b"data: a")
    with pytest.raises(ProviderError, match="longer than") as refused:
        parser.feed(b"bcdefg")
    assert (refused.value.kind, refused.value.retryable) == ("bad_payload", False)


def test_event_beyond_the_cap_is_refused_however_short_its_lines() -> None:
    with pytest.raises(ProviderError, match="longer than"):
        SseParser(max_line_bytes=10).feed(b"data: abc\n" * 4)


def test_long_line_in_many_pieces_costs_no_more_than_its_length() -> None:
    parser = SseParser()
    parser.feed(b"data: ")
    for _ in range(2000):
        parser.feed(b"x" * 1000)
    assert len(parser.feed(b"\n\n")[0].data) == 2_000_000


@pytest.mark.parametrize(("name", "body"), [(n, b) for n, b, _ in samples("openai-chat-sse")])
def test_recorded_streams_give_the_same_events_however_they_are_cut(name: str, body: bytes) -> None:
    whole = events(body)
    assert whole
    assert events(*(body[i : i + 1] for i in range(len(body)))) == whole
    assert events(*(body[i : i + 7] for i in range(0, len(body), 7))) == whole


@given(
    st.lists(
        st.sampled_from(
            [b"data: x", b"data:", b": c", b"event: e", b"\n", b"\r", b"\r\n", b"\xc3\xa9", b"\xef\xbb\xbf"]
        )
    ),
    st.lists(st.integers(0, 200)),
)
def test_any_stream_gives_the_same_events_however_it_is_cut(parts: list[bytes], cuts: list[int]) -> None:
    body = b"".join(parts)
    places = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    pieces = [body[a:b] for a, b in pairwise(places)]
    assert events(*pieces) == events(body)
