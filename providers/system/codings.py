"""Content codings: decompresses response bodies in bounded steps, so that no bomb fills the memory at once.

Only gzip and deflate are requested. Gateways also send brotli and zstd unasked: these are decoded where their package
is installed (the extra `codings`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Protocol

from providers.errors import ProviderError

MAX_STEP_BYTES = 1024 * 1024
"""Maximum bytes that one decompression step yields."""
_IDENTITIES = frozenset({"", "identity", "none", "utf-8", "utf8"})
"""Names of no coding. Servers that take the header for the charset send `UTF-8`."""
_MAX_CODINGS = 3


class Decoder(Protocol):
    """Decodes a body that arrives in pieces."""

    finished: bool
    """True at the end of the compressed data; also for an empty body."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield decompressed pieces of about 1 MiB at most (brotli: 2 MiB).

        Raises:
            ProviderError: `bad_payload`: the data is damaged.
        """


def open_decoder(encoding: str, where: str) -> Decoder | None:
    """Open the decoder for a Content-Encoding header; None if the body is not compressed.

    Raises:
        ProviderError: `bad_payload`: the coding is unknown, or its package is not installed.
    """
    names = [name for part in encoding.split(",") if (name := part.strip().lower()) not in _IDENTITIES]
    if len(names) > _MAX_CODINGS:
        raise _build_coding_error(f"{where}: the response has {len(names)} encodings, one in another", retryable=False)
    decoders = [_open_single(name, where) for name in reversed(names)]
    return decoders[0] if len(decoders) == 1 else _Chain(decoders) if decoders else None


def _open_single(name: str, where: str) -> Decoder:
    match name:
        case "gzip" | "x-gzip":
            return _Inflater(zlib.MAX_WBITS + 32, where)
        case "deflate" | "x-deflate":
            return _Inflater(zlib.MAX_WBITS, where)
        case "br":
            return _Brotli(_import_coding("brotli", "br", where), where)
        case "zstd":
            return _Zstd(_import_coding("compression.zstd", "zstd", where, "backports.zstd"), where)
    raise _build_coding_error(
        f"{where}: the response has the encoding {name[:40]!r}, which was not requested", retryable=False
    )


def _import_coding(module: str, name: str, where: str, *others: str) -> Any:
    for candidate in (module, *others):
        try:
            return import_module(candidate)
        except ImportError:
            continue
    hint = "install evalctl[codings] to read it"
    raise _build_coding_error(
        f"{where}: the response has the encoding {name!r}, which was not requested; {hint}", retryable=False
    )


class _Inflater:
    """Decoder of gzip and deflate. Deflate may come without its zlib header, as some servers send it."""

    def __init__(self, window: int, where: str) -> None:
        self._window = window
        self._where = where
        self._inner: Any = None
        self.finished = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        """See `Decoder.feed`."""
        while data:
            if self._inner is None:
                self._window = _choose_window(self._window, data)
                self._inner = zlib.decompressobj(self._window)
            elif self._inner.eof:  # a further gzip member
                self._inner = zlib.decompressobj(self._window)
            self.finished = False
            try:
                piece = self._inner.decompress(data, MAX_STEP_BYTES)
            except zlib.error as error:
                raise _build_damage_error(self._where) from error
            self.finished = self._inner.eof
            yield piece
            data = self._inner.unused_data if self._inner.eof else self._inner.unconsumed_tail


def _choose_window(window: int, data: bytes) -> int:
    """The window for deflate by its first byte: a zlib header names method 8 and a window of at most 32 KiB."""
    if window != zlib.MAX_WBITS:
        return window
    zlib_header = data[0] & 0x0F == 8 and data[0] >> 4 <= 7 and (len(data) < 2 or (data[0] * 256 + data[1]) % 31 == 0)
    return window if zlib_header else -zlib.MAX_WBITS


class _Brotli:
    """Decoder of brotli."""

    def __init__(self, module: Any, where: str) -> None:
        self._error = module.error
        self._inner = module.Decompressor()
        self._where = where
        self.finished = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        """See `Decoder.feed`."""
        try:
            piece = self._inner.process(data, output_buffer_limit=MAX_STEP_BYTES)
            # It takes in all of its input before it has yielded all of its output.
            while piece:
                yield piece
                if self._inner.is_finished():
                    break
                piece = self._inner.process(b"", output_buffer_limit=MAX_STEP_BYTES)
        except self._error as error:
            raise _build_damage_error(self._where) from error
        self.finished = self._inner.is_finished()


class _Zstd:
    """Decoder of Zstandard."""

    def __init__(self, module: Any, where: str) -> None:
        self._module = module
        self._inner = module.ZstdDecompressor()
        self._where = where
        self.finished = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        """See `Decoder.feed`."""
        while True:
            if self._inner.eof:
                data = self._inner.unused_data + data
                if not data:
                    return
                self._inner = self._module.ZstdDecompressor()
            try:
                piece = self._inner.decompress(data, MAX_STEP_BYTES)
            except self._module.ZstdError as error:
                raise _build_damage_error(self._where) from error
            data = b""
            self.finished = self._inner.eof
            yield piece
            if self._inner.eof:
                if not self._inner.unused_data:
                    return
            elif self._inner.needs_input:
                return


class _Chain:
    """Decoder of codings in one another; the outermost comes first."""

    def __init__(self, decoders: list[Decoder]) -> None:
        self._decoders = decoders
        self.finished = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        """See `Decoder.feed`."""
        yield from self._feed_from(0, data)
        self.finished = all(decoder.finished for decoder in self._decoders)

    def _feed_from(self, at: int, data: bytes) -> Iterator[bytes]:
        if at == len(self._decoders):
            yield data
            return
        for piece in self._decoders[at].feed(data):
            if piece:
                yield from self._feed_from(at + 1, piece)


def _build_damage_error(where: str) -> ProviderError:
    return _build_coding_error(f"{where}: the compressed body is damaged", retryable=True)


def _build_coding_error(message: str, *, retryable: bool) -> ProviderError:
    return ProviderError(kind="bad_payload", message=message[:400], retryable=retryable, mid_stream=True)
