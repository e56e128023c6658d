"""Which fields of a document hold a secret: what whoever writes a file to be shared asks before writing it."""

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
    """Where in *value*, which stands *at* a place, secrets are, and of what kind: never what they are.

    A mark that was left of one counts as one; what is known by its look is found as base64, too. A key that holds one
    is not told, nor anything below it: its object is.
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
                # some values are no more than a word, and the name alone tells what they are
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
    """What stands in *text* as base64, wherever its groups of four begin: a key of no known value is told by nothing
    else.
    """
    for run in _BASE64.finditer(text):
        digits = run.group().translate(_STANDARD)
        for skipped in range(4):
            whole = (len(digits) - skipped) // 4 * 4
            yield b64decode(digits[skipped : skipped + whole]).decode("latin-1")


_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}+")
_STANDARD = str.maketrans("-_", "+/")
