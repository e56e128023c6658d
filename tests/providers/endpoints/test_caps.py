"""What the caps on hostile answers come to, with the product's own numbers."""

import pytest

from providers.endpoints import ndjson, sse
from providers.endpoints.ndjson import NdjsonParser
from providers.endpoints.sse import SseParser
from providers.errors import ProviderError
from providers.system import http

MIB = 2**20


def test_a_line_has_64_mib_and_a_body_256() -> None:
    assert (sse.MAX_LINE_BYTES, ndjson.MAX_LINE_BYTES, http.MAX_BODY_BYTES) == (64 * MIB, 64 * MIB, 256 * MIB)


@pytest.mark.parametrize("parser", [SseParser, NdjsonParser])
def test_a_line_that_never_ends_is_refused_at_64_mib(parser: type[SseParser] | type[NdjsonParser]) -> None:
    reading = parser()
    piece = b"x" * MIB
    for _ in range(64):
        assert list(reading.feed(piece)) == []
    with pytest.raises(ProviderError, match="longer than 67,108,864 bytes") as refused:
        reading.feed(piece)
    assert not refused.value.retryable
