"""JSON lines (NDJSON): splits a body, received in pieces of any size, into lines."""

from __future__ import annotations

from providers.errors import ProviderError

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Maximum length of a line in bytes."""
_BOM = b"\xef\xbb\xbf"


class NdjsonParser:
    """Parser of JSON lines.

    Lines end with LF or CRLF; blank lines are skipped. Complete lines are decoded, so a character split between two
    pieces survives; bytes that are not UTF-8 become U+FFFD.
    """

    def __init__(self, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._limit = max_line_bytes
        self._tail = bytearray()
        self._at_start = True

    def feed(self, data: bytes) -> list[str]:
        """Add *data* and return the lines that it completes.

        Raises:
            ProviderError: `bad_payload`: a line is longer than 64 MiB.
        """
        first, *rest = data.split(b"\n")
        self._tail += first
        if len(self._tail) > self._limit:
            raise ProviderError(
                kind="bad_payload",
                message=f"a line of the stream is longer than {self._limit:,} bytes",
                retryable=False,
                mid_stream=True,
            )
        if not rest:
            return []
        lines = [self._decode_line(bytes(self._tail)), *map(self._decode_line, rest[:-1])]
        self._tail = bytearray(rest[-1])
        return [line for line in lines if line]

    def close(self) -> str:
        """End the body and return the rest after the last line end: a complete line or half of one."""
        tail = self._decode_line(bytes(self._tail))
        self._tail.clear()
        return tail

    def _decode_line(self, line: bytes) -> str:
        if self._at_start:
            line = line.removeprefix(_BOM)
            self._at_start = False
        return line.decode("utf-8", "replace").strip()
