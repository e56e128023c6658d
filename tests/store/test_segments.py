"""Deltas become segments without loss, without secrets, and with every delta's time and length."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from store.secrets.redactor import Redactor
from store.segments import Segment, Segmenter

SECRET = "Zx81-not-a-real-credential"
LONGER = SECRET + "-longer"
REDACTOR = Redactor([("A_KEY", SECRET), ("B_KEY", LONGER), ("C_KEY", "credential-of-c")])


class Clock:
    """Says what the test says."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def collect(deltas: list[tuple[int, str]], redactor: Redactor = REDACTOR) -> list[Segment]:
    """The segments of one stream whose deltas come after so many milliseconds each."""
    clock = Clock()
    segmenter = Segmenter(redactor, clock)
    done: list[Segment] = []
    for pause, text in deltas:
        clock.now += pause
        done += segmenter.add_delta("text", 1, text)
    return done + segmenter.flush()


pieces = st.sampled_from(
    [
        *(SECRET, SECRET[:7], SECRET[7:], LONGER, "-longer", "-long", "credential", "-of-c", "[redacted:", "A_KEY]"),
        *("sk-", "ant-", "a" * 25, "eyJ", "b" * 12, ".eyJ", ".", "ghp_", "c" * 50, "AKIA", "D" * 16, "\\n", "%2", "0"),
        *(
            "-----BEGIN ",
            "RSA PRIVATE KEY-----",
            "MII=\n",
            "-----END ",
            "PRIVATE KEY-----",
            " plain ",
            "é\0",
            "x" * 3000,
        ),
    ]
)
texts = st.one_of(st.text(max_size=200), st.lists(pieces, max_size=12).map("".join))


@given(text=texts, cuts=st.lists(st.integers(0, 4000), max_size=30), data=st.data())
def test_segments_hold_the_redacted_text_however_it_was_split(text: str, cuts: list[int], data: DataObject) -> None:
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    parts = [text[a:b] for a, b in pairwise(edges)]
    deltas = [(data.draw(st.sampled_from([0, 1, 40, 700, 1500])), part) for part in parts]

    segments = collect(deltas)

    assert "".join(segment.payload["text"] for segment in segments) == REDACTOR.redact_text(text)
    times: list[int] = []
    for segment in segments:
        assert sum(length for _, length in segment.payload["chunks"]) == len(segment.payload["text"])
        assert segment.payload["chunks"][0][0] == 0
        times += [segment.at + ms for ms, _ in segment.payload["chunks"]]
    assert times == sorted(times)
    arrivals = {sum(pause for pause, _ in deltas[: n + 1]) for n, (_, part) in enumerate(deltas) if part}
    assert set(times) == arrivals


def test_every_delta_keeps_its_time_and_length() -> None:
    (segment,) = collect([(5, "Hello"), (40, ", "), (60, "world")])

    assert segment == Segment(
        kind="text", at=5, payload={"request": 1, "text": "Hello, world", "chunks": [[0, 5], [40, 2], [100, 5]]}
    )


def test_a_mark_belongs_to_the_delta_where_its_secret_began() -> None:
    (segment,) = collect([(0, "key: " + SECRET[:4]), (10, SECRET[4:9]), (10, SECRET[9:] + "!")])

    assert segment.payload == {
        "request": 1,
        "text": "key: [redacted:A_KEY]!",
        "chunks": [[0, 21], [10, 0], [20, 1]],
    }


def test_what_may_begin_a_secret_waits_for_the_next_segment() -> None:
    first, second = collect([(0, "so: " + SECRET[:9]), (1500, SECRET[9:] + ".")])

    assert first.payload["text"] == "so: "
    assert second == Segment(
        kind="text", at=0, payload={"request": 1, "text": "[redacted:A_KEY].", "chunks": [[0, 16], [1500, 1]]}
    )


def test_the_longer_of_two_secrets_is_waited_for() -> None:
    segments = collect([(0, "so: " + SECRET), (1500, "-long"), (1500, "er.")])

    assert [segment.payload["text"] for segment in segments] == ["so: ", "[redacted:B_KEY]."]


def test_the_end_releases_what_only_looked_like_a_secret() -> None:
    segments = collect([(0, "so: " + SECRET[:9]), (1500, "")])

    assert "".join(segment.payload["text"] for segment in segments) == "so: " + SECRET[:9]


def test_a_segment_closes_at_four_kilobytes() -> None:
    segments = collect([(0, "word " * 200) for _ in range(9)])

    assert [len(segment.payload["text"]) for segment in segments] == [5000, 4000]


def test_a_segment_closes_after_a_second() -> None:
    segments = collect([(0, "a "), (400, "b "), (599, "c "), (1, "d "), (5, "e ")])

    assert [(segment.at, segment.payload["text"]) for segment in segments] == [(0, "a b c "), (1000, "d e ")]


def test_another_stream_or_request_closes_a_segment() -> None:
    segmenter = Segmenter(REDACTOR, Clock())

    assert segmenter.add_delta("reasoning", 1, "hm") == []
    (reasoning,) = segmenter.add_delta("text", 1, "so")
    (first,) = segmenter.add_delta("text", 2, "again")
    (second,) = segmenter.flush()

    assert (reasoning.kind, reasoning.payload["text"]) == ("reasoning", "hm")
    assert (first.kind, first.payload["request"], first.payload["text"]) == ("text", 1, "so")
    assert (second.kind, second.payload["request"], second.payload["text"]) == ("text", 2, "again")
    assert segmenter.flush() == []


def test_a_secret_split_over_two_streams_is_none() -> None:
    segmenter = Segmenter(REDACTOR, Clock())
    segmenter.add_delta("text", 1, SECRET[:9])
    (first,) = segmenter.add_delta("reasoning", 1, SECRET[9:])

    assert first.payload["text"] == SECRET[:9]


def test_halves_of_a_character_in_two_deltas_become_one_character() -> None:
    (segment,) = collect([(0, "a\ud83d"), (10, "\ude00b")])

    assert segment.payload["text"] == "a\U0001f600b"
    assert segment.payload["chunks"] == [[0, 2], [10, 1]]


def test_half_a_character_waits_for_the_other_half() -> None:
    segments = collect([(0, "a\ud83d"), (1500, "\ude00"), (5, "b")])

    assert [(s.payload["text"], s.payload["chunks"]) for s in segments] == [
        ("a", [[0, 1]]),
        ("\U0001f600b", [[0, 1], [1500, 0], [1505, 1]]),
    ]


def test_a_lone_half_is_kept() -> None:
    (segment,) = collect([(0, "a\ud83d"), (10, "b")])

    assert segment.payload["text"] == "a\ud83db"


def test_an_empty_delta_leaves_no_trace() -> None:
    assert collect([(0, "")]) == []
