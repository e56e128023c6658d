"""The places that a document tells are held against the text it was read from."""

from __future__ import annotations

import json
from typing import Any


def assert_places(document: Any, text: str, value: object) -> None:
    """Wherever *document* says that a part of *value* stands in *text*, which is JSON, it can be read again."""
    lines = text.split("\n")

    def walk(at: tuple[str | int, ...], inner: object) -> None:
        line, column = document.locate_path(at)
        rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        if at and isinstance(at[-1], str):
            key, end = json.JSONDecoder().raw_decode(rest)
            assert key == at[-1]
            rest = rest[end:].lstrip().removeprefix(":").lstrip()
        assert json.JSONDecoder().raw_decode(rest)[0] == inner
        children = inner.items() if isinstance(inner, dict) else enumerate(inner) if isinstance(inner, list) else ()
        for step, child in children:
            walk((*at, step), child)

    walk((), value)
