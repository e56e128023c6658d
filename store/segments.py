"""Batches the streamed deltas of an answer into segments: few rows that keep every delta's time and length.

Segments are redacted, also when a secret arrives split over deltas: text that may be the beginning of a secret is held
back until further text, or the end of the stream, decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import attrs

from store.secrets.redactor import CONTEXT_CHARACTERS, Redactor

MAX_SEGMENT_CHARACTERS = 4096
"""Close a segment after this many characters."""

MAX_SEGMENT_MS = 1000
"""Close a segment after this many milliseconds, at the next delta."""

Stream = Literal["text", "reasoning"]


@attrs.frozen
class Segment:
    """A segment: a redacted stretch of one answer's text.

    `payload` is `{"request": int, "text": str, "chunks": [[ms, length], ...]}`: the milliseconds of every delta since
    the segment's `at`, and how many characters of `text` came with it. The lengths add up to the text's. A mark
    belongs to the delta in which its secret began; the other deltas of that secret have a length of 0.
    """

    kind: Stream
    at: int
    """Time of its first delta, in milliseconds of the clock."""
    payload: dict[str, Any]


class Segmenter:
    """Collects deltas and returns each segment as soon as it is complete.

    The texts of one request's segments of one stream, joined, are the redacted text of its deltas, unless another
    stream came in between. Two halves of a surrogate pair in neighbouring deltas become one character, in the
    first of the two.

    Args:
        redactor: finds the secrets to replace.
        clock_ms: milliseconds since the attempt was claimed; never goes back.
    """

    def __init__(self, redactor: Redactor, clock_ms: Callable[[], int]) -> None:
        self._redactor = redactor
        self._clock = clock_ms
        self._stream: Stream = "text"
        self._request = 0
        self._before = ""  # the last released characters: they decide whether a key may start after them
        self._texts: list[str] = []
        self._times: list[int] = []
        self._size = 0
        self._due = 0

    def add_delta(self, stream: Stream, request: int, text: str) -> list[Segment]:
        """Add a delta of an answer. Returns the segments that it completes, usually none."""
        if not text:
            return []
        now = self._clock()
        done: list[Segment] = []
        if stream != self._stream or request != self._request:
            done = self.flush()
            self._stream = stream
            self._request = request
        if not self._texts:
            self._due = now + MAX_SEGMENT_MS
        elif now >= self._due:
            done += self._close_segment(now)
        if "\udc00" <= text[0] <= "\udfff" and self._texts and "\ud800" <= self._texts[-1][-1:] <= "\udbff":
            pair = self._texts[-1][-1] + text[0]
            self._texts[-1] = self._texts[-1][:-1] + pair.encode("utf-16", "surrogatepass").decode("utf-16")
            text = text[1:]
        self._texts.append(text)
        self._times.append(now)
        self._size += len(text)
        if self._size >= MAX_SEGMENT_CHARACTERS:
            done += self._close_segment(now)
        return done

    def flush(self) -> list[Segment]:
        """End the stream. Returns everything still held back as a last segment, or nothing."""
        if not self._texts:
            self._before = ""
            return []
        done = self._release_decided(final=True)
        self._before = ""
        return done

    def _close_segment(self, now: int) -> list[Segment]:
        self._due = now + MAX_SEGMENT_MS
        return self._release_decided(final=False)

    def _release_decided(self, *, final: bool) -> list[Segment]:
        """Make a segment of all text up to the first undecided character."""
        self._size = 0
        if not self._texts:
            return []
        start = len(self._before)
        raw = self._before + "".join(self._texts)
        spans, end = self._find_decided_spans(raw, start, final=final)
        if end == start:
            return []
        stretches = [len(text) for text in self._texts]
        texts, times, at = self._texts, self._times, self._times[0]
        self._texts, self._times, self._before = [], [], raw[max(0, end - CONTEXT_CHARACTERS) : end]
        pieces: list[str] = []
        chunks: list[list[int]] = []
        position = start  # in raw: the end of what is in pieces
        edge = start
        nth = 0
        for text, time, length in zip(texts, times, stretches, strict=True):
            edge += length
            stop = min(edge, end)
            size = 0
            while position < stop:
                span = spans[nth] if nth < len(spans) else None
                if span is None or span[0] >= stop:
                    piece, position = raw[position:stop], stop
                elif span[0] > position:
                    piece, position = raw[position : span[0]], span[0]
                else:
                    piece, position = span[2], span[1]
                    nth += 1
                pieces.append(piece)
                size += len(piece)
            if edge - length < end or (not length and edge == end):
                chunks.append([time - at, size])
            if edge > end:
                self._texts.append(text[max(0, end - (edge - length)) :])
                self._times.append(time)
        return [
            Segment(
                kind=self._stream,
                at=at,
                payload={"request": self._request, "text": "".join(pieces), "chunks": chunks},
            )
        ]

    def _find_decided_spans(self, raw: str, start: int, *, final: bool) -> tuple[list[tuple[int, int, str]], int]:
        """Find the secrets in *raw* from *start* on, and the offset up to which further text cannot change them."""
        end = len(raw) if final else self._redactor.find_open_start(raw, start)
        spans: list[tuple[int, int, str]] = []
        for span in self._redactor.find_secrets(raw, start):
            if span[0] >= end:
                break
            spans.append(span)
            if span[1] > end:
                # the apparent beginning of a secret lies inside another one
                end = self._redactor.find_open_start(raw, span[1])
        if not final and end == len(raw) and "\ud800" <= raw[-1] <= "\udbff" and not (spans and spans[-1][1] == end):
            end -= 1  # its other half may come with the next delta
        return spans, end
