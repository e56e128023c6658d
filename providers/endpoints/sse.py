"""Server-sent events: parses a body, received in pieces of any size, by the WHATWG standard.

Model endpoints use only an event's name and data, so `id`, `retry` and unknown fields are ignored.
"""

from __future__ import annotations

import attrs

from providers.errors import ProviderError

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Maximum length in bytes of a line, and of one event's data."""
_BOM = b"\xef\xbb\xbf"


@attrs.frozen
class SseEvent:
    """One event. `name` is empty if the stream gave none."""

    name: str
    data: str


class SseParser:
    """Parser of server-sent events.

    Lines end with CR, LF or CRLF. Complete lines are decoded, so a character split between two pieces survives; bytes
    that are not UTF-8 become U+FFFD.
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
        """Number of comment lines, which endpoints send as keep-alives."""

    def feed(self, data: bytes) -> list[SseEvent]:
        """Add *data* and return the events that it completes.

        Raises:
            ProviderError: `bad_payload`: a line or an event's data is longer than 64 MiB.
        """
        if self._after_cr and data:
            # The CR has already ended a line; a following LF belongs to it.
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *rest = data.split(b"\n")
        self._tail += first
        if len(self._tail) > self._limit:
            raise self._build_length_error()
        if not rest:
            return []
        events: list[SseEvent] = []
        for line in (bytes(self._tail), *rest[:-1]):
            self._take_line(line, events)
        self._tail = bytearray(rest[-1])
        return events

    def close(self) -> list[SseEvent]:
        """End the body and return the event that lacks its final blank line, complete or half of one.

        The standard discards it. Servers that end their last event with the connection are common, so the caller
        decides by the data.
        """
        events: list[SseEvent] = []
        if self._tail:
            self._take_line(bytes(self._tail), events)
            self._tail.clear()
        self._take_line(b"", events)
        return events

    def _take_line(self, line: bytes, events: list[SseEvent]) -> None:
        if self._at_start:
            line = line.removeprefix(_BOM)
            self._at_start = False
        if not line:
            if self._data:
                events.append(SseEvent(self._name, "\n".join(self._data)))
            self._reset_event()
            return
        if line.startswith(b":"):
            self.comments += 1
            return
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data_size += len(value)
            if self._data_size > self._limit:
                raise self._build_length_error()
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
        elif field == b"event":
            self._name = value.removeprefix(b" ").decode("utf-8", "replace")

    def _reset_event(self) -> None:
        self._name = ""
        self._data = []
        self._data_size = 0

    def _build_length_error(self) -> ProviderError:
        return ProviderError(
            kind="bad_payload",
            message=f"a line of the stream is longer than {self._limit:,} bytes",
            retryable=False,
            mid_stream=True,
        )
