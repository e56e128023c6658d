"""Encoded forms of a secret value: hexadecimal, base32, base64, percent codes and JSON escapes."""

from __future__ import annotations

import json
import re
from base64 import b32encode, b64encode
from collections.abc import Iterator
from urllib.parse import quote, quote_plus


def list_encoded_forms(text: str) -> set[str]:
    """Encode a secret value in every way in which programs commonly print one, itself included."""
    octets = text.encode("utf-8", "surrogatepass")
    percent = quote(octets, safe="")
    escaped = json.dumps(text)[1:-1]
    forms = {
        text,
        percent,
        re.sub(r"%[0-9A-F]{2}", lambda code: code.group().lower(), percent),
        quote(octets),
        quote_plus(octets),
        escaped,
        escaped.replace("/", "\\/"),
        json.dumps(text, ensure_ascii=False)[1:-1],
    }
    forms |= {octets.hex(), octets.hex().upper()}
    for encoded in _encode_base64_forms(octets):
        forms |= {encoded, encoded.replace("+", "-").replace("/", "_")}
    for encoded in _encode_base32_forms(octets):
        forms |= {encoded, encoded.lower()}
    return forms


def _encode_base64_forms(octets: bytes) -> Iterator[str]:
    """Encode as base64: with and without padding, and the digits that stay fixed inside longer encoded bytes."""
    whole = b64encode(octets).decode()
    yield whole
    yield whole.rstrip("=")
    for before, unsure in ((0, 0), (1, 2), (2, 3)):
        encoded = b64encode(b"\0" * before + octets).decode().rstrip("=")
        # a digit that the last byte does not fill depends on the following byte
        yield encoded[unsure : (before + len(octets)) * 8 // 6]


def _encode_base32_forms(octets: bytes) -> Iterator[str]:
    """Encode *octets* in base32, and as they appear inside a longer encoded text, at each of its five alignments."""
    whole = b32encode(octets).decode()
    yield whole
    yield whole.rstrip("=")
    for before in range(5):
        encoded = b32encode(b"\0" * before + octets).decode().rstrip("=")
        # digits that the value shares with the bytes around it depend on those
        yield encoded[-(-before * 8 // 5) : (before + len(octets)) * 8 // 5]
