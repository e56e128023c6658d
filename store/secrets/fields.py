"""Finds the fields of a document that hold a secret, before a file to be shared is written."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator

from store.documents.positions import DocumentPath
from store.events import Json
from store.secrets.redactor import MARK_PREFIX, Redactor
from store.secrets.scanner import scan_text


def find_secret_fields(value: Json, at: DocumentPath, redactor: Redactor) -> Iterator[tuple[DocumentPath, str]]:
    """Find the secrets in *value*: yields the path (below *at*) and the kind of each, never the secret itself.

    A redaction mark counts as a secret; keys of a known shape are also found inside base64. If an object's key holds a
    secret, the path of the object is yielded instead, and nothing below that key.
    """
    match value:
        case str():
            if (kind := _classify_text(value, redactor)) is not None:
                yield at, kind
        case list() | tuple():
            for index, item in enumerate(value):
                yield from find_secret_fields(item, (*at, index), redactor)
        case dict():
            for key, item in value.items():
                if (kind := _classify_text(key, redactor)) is not None:
                    yield at, kind
                elif not isinstance(item, str):
                    yield from find_secret_fields(item, (*at, key), redactor)
                # a value may be a plain word that only its name marks as a secret
                elif (kind := _classify_text(item, redactor) or _classify_shape(json.dumps({key: item}))) is not None:
                    yield (*at, key), kind


def _classify_text(text: str, redactor: Redactor) -> str | None:
    if MARK_PREFIX in text:
        return "the mark of a secret"
    if found := redactor.find_secrets(text):
        return f"a secret ({found[0][2].removeprefix(MARK_PREFIX).removesuffix(']')})"
    return _classify_shape(text)


def _classify_shape(text: str) -> str | None:
    found = scan_text(text) or next(filter(None, map(scan_text, _decode_base64(text))), [])
    return f"a secret ({found[0].shape})" if found else None


def _decode_base64(text: str) -> Iterator[str]:
    """Decode every base64 run in *text*, at each of the four alignments, so that shapes are found inside it."""
    for run in _BASE64_RUN.finditer(text):
        digits = run.group().translate(_STANDARD_ALPHABET)
        for skipped in range(4):
            whole = (len(digits) - skipped) // 4 * 4
            yield b64decode(digits[skipped : skipped + whole]).decode("latin-1")


_BASE64_RUN = re.compile(r"[A-Za-z0-9+/_-]{24,}+")
_STANDARD_ALPHABET = str.maketrans("-_", "+/")
