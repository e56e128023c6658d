"""Tests of content codings: the spellings of none, and the codings that servers send unasked."""

import gzip
import random
import sys
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from providers.errors import ProviderError
from providers.system.codings import MAX_STEP_BYTES, open_decoder

TEXT = b"hello " * 1000
BOMB = b"\0" * (5 * MAX_STEP_BYTES)


def pack_raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def pack_brotli(data: bytes) -> bytes:
    packed: bytes = pytest.importorskip("brotli").compress(data)
    return packed


def pack_zstd(data: bytes) -> bytes:
    packed: bytes = pytest.importorskip(
        "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    ).compress(data)
    return packed


CODINGS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("GZIP", gzip.compress),
    ("x-gzip", gzip.compress),
    ("gzip, identity", gzip.compress),
    ("none, gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", pack_raw_deflate),
    ("deflate, gzip", lambda data: gzip.compress(zlib.compress(data))),
    ("gzip, gzip", lambda data: gzip.compress(gzip.compress(data))),
    ("br", pack_brotli),
    ("zstd", pack_zstd),
    ("br, UTF-8", pack_brotli),
    ("zstd, gzip", lambda data: gzip.compress(pack_zstd(data))),
]


def decode(encoding: str, *pieces: bytes) -> bytes:
    decoder = open_decoder(encoding, "here")
    assert decoder is not None
    parts = [part for piece in pieces for part in decoder.feed(piece)]
    assert all(len(part) <= 2 * MAX_STEP_BYTES for part in parts)
    assert decoder.finished
    return b"".join(parts)


@pytest.mark.parametrize("encoding", ["", " ", "identity", "none", "None", "UTF-8", "utf8", "identity, utf-8", ","])
def test_spellings_of_no_coding_decode_nothing(encoding: str) -> None:
    assert open_decoder(encoding, "here") is None


@pytest.mark.parametrize(("encoding", "pack"), CODINGS)
def test_body_is_decoded_however_it_is_cut(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(TEXT)
    assert decode(encoding, packed) == TEXT
    assert decode(encoding, *(packed[i : i + 1] for i in range(len(packed)))) == TEXT


@pytest.mark.parametrize(("encoding", "pack"), CODINGS)
def test_bomb_comes_out_in_bounded_pieces(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    assert decode(encoding, pack(BOMB)) == BOMB


@pytest.mark.parametrize(("encoding", "pack"), CODINGS)
def test_body_that_ends_early_is_not_finished(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(random.Random(0).randbytes(500))
    decoder = open_decoder(encoding, "here")
    assert decoder is not None
    assert decoder.finished
    list(decoder.feed(packed[:-14]))
    assert not decoder.finished


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, br"])
def test_damaged_body_is_an_error(encoding: str) -> None:
    if "br" in encoding:
        pytest.importorskip("brotli")
    if "zstd" in encoding:
        pack_zstd(b"")
    decoder: Any = open_decoder(encoding, "here")
    with pytest.raises(ProviderError, match="damaged"):
        list(decoder.feed(b"\xff\xfethis is no compressed body at all"))


@pytest.mark.parametrize("encoding", ["compress", "exi", "gzip, snappy", "x" * 1000])
def test_unknown_coding_is_named_and_not_retried(encoding: str) -> None:
    with pytest.raises(ProviderError) as failed:
        open_decoder(encoding, "here")
    assert (failed.value.kind, failed.value.retryable) == ("bad_payload", False)
    assert encoding.rpartition(", ")[2][:40] in failed.value.message


def test_coding_without_its_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "brotli", None)
    with pytest.raises(ProviderError, match=r"'br'.*evalctl\[codings\]"):
        open_decoder("br", "here")


def test_more_codings_than_anybody_needs_are_refused() -> None:
    with pytest.raises(ProviderError, match="4 encodings"):
        open_decoder("gzip, gzip, gzip, gzip", "here")
