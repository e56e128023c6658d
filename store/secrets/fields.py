"""Finds the fields of a document that hold a secret, before a file to be shared is written."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator

from store.documents.positions import DocumentPath
from store.events import Json
from store.secrets.redactor import MARK, Redactor
from store.secrets.scanner import scan


def secret_fields(value: Json, at: DocumentPath, redactor: Redactor) -> Iterator[tuple[DocumentPath, str]]:
    """Find the secrets in *value*: yields the path (below *at*) and the kind of each, never the secret itself.

    A redaction mark counts as a secret; keys of a known shape are also found inside base64. If an object's key holds a
    secret, the path of the object is yielded instead, and nothing below that key.
    """
    match value:
        case str():
            if (kind := _kind(value, redactor)) is not None:
                yield at, kind
        case list() | tuple():
            for index, item in enumerate(value):
                yield from secret_fields(item, (*at, index), redactor)
        case dict():
            for key, item in value.items():
                if (kind := _kind(key, redactor)) is not None:
                    yield at, kind
                elif not isinstance(item, str):
                    yield from secret_fields(item, (*at, key), redactor)
                # a value may be a plain word that only its name marks as a secret
                elif (kind := _kind(item, redactor) or _shape(json.dumps({key: item}))) is not None:
                    yield (*at, key), kind


def _kind(text: str, redactor: Redactor) -> str | None:
    if MARK in text:
        return "the mark of a secret"
    if (found := next(redactor.scan(text), None)) is not None:
        return f"a secret ({found[2].removeprefix(MARK).removesuffix(']')})"
    return _shape(text)


def _shape(text: str) -> str | None:
    found = scan(text) or next(filter(None, map(scan, _decoded(text))), [])
    return f"a secret ({found[0].shape})" if found else None


def _decoded(text: str) -> Iterator[str]:
    """Decode every base64 run in *text*, at each of the four alignments, so that shapes are found inside it."""
    for run in _BASE64.finditer(text):
        digits = run.group().translate(_STANDARD)
        for skipped in range(4):
            whole = (len(digits) - skipped) // 4 * 4
            yield b64decode(digits[skipped : skipped + whole]).decode("latin-1")


_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}+")
_STANDARD = str.maketrans("-_", "+/")
