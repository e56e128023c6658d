"""Server-sent events, as the WHATWG standard parses them, from bytes that may be cut anywhere.

Only what model endpoints use is kept: the event's name and its data. `id`, `retry` and unknown fields are read over.
"""

from __future__ import annotations

import attrs

from providers.errors import ProviderError

MAX_LINE_BYTES = 64 * 1024 * 1024
"""No line, and no event's data, may be longer."""
_BOM = b"\xef\xbb\xbf"


@attrs.frozen
class SseEvent:
    """One dispatched event. `name` is empty where the stream gave none."""

    name: str
    data: str


class SseParser:
    """Turns pieces of a body into events.

    Lines end with CR, LF or CRLF. Whole lines are decoded, so a character cut in two comes out whole; bytes that are
    no UTF-8 become U+FFFD.
    """

    def __init__(self, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._limit = max_line_bytes
        self._tail = bytearray()
        self._after_cr = False
        self._at_start = True
        self._name = ""
        self._data: list[str] = []
        self._data_size = 0
        self.comments = 0
        """Comment lines seen: signs of life, nothing more."""

    def feed(self, data: bytes) -> list[SseEvent]:
        """The events that *data* completes.

        Raises:
            ProviderError: `bad_payload`: a line or an event's data is longer than 64 MiB.
        """
        if self._after_cr and data:
            # The CR has ended a line already; an LF that follows belongs to it.
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *rest = data.split(b"\n")
        self._tail += first
        if len(self._tail) > self._limit:
            raise self._too_long()
        if not rest:
            return []
        events: list[SseEvent] = []
        for line in (bytes(self._tail), *rest[:-1]):
            self._line(line, events)
        self._tail = bytearray(rest[-1])
        return events

    def close(self) -> None:
        """The body is over: an event that no blank line ended is discarded, as the standard says."""
        self._tail.clear()
        self._forget()

    def _line(self, line: bytes, events: list[SseEvent]) -> None:
        if self._at_start:
            line = line.removeprefix(_BOM)
            self._at_start = False
        if not line:
            if self._data:
                events.append(SseEvent(self._name, "\n".join(self._data)))
            self._forget()
            return
        if line.startswith(b":"):
            self.comments += 1
            return
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data_size += len(value)
            if self._data_size > self._limit:
                raise self._too_long()
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
        elif field == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8", "replace")

    def _forget(self) -> None:
        self._name = ""
        self._data = []
        self._data_size = 0

    def _too_long(self) -> ProviderError:
        return ProviderError(
            kind="bad_payload",
            message=f"a line of the stream is longer than {self._limit:,} bytes",
            retryable=False,
            mid_stream=True,
        )
