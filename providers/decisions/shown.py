"""How a message shows what others wrote: short, on one line, and nothing that a terminal would obey."""

from __future__ import annotations

import json

from store.events import Json

LONGEST = 300
"""Characters of a text in a message."""


def line(text: str, longest: int = LONGEST) -> str:
    r"""*text* on one line, at most *longest* characters of it; what is not printable as `\uXXXX`."""
    cut = text[: longest + 1]
    shown = "".join(char if char.isprintable() else _escaped(char) for char in cut)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def value(given: Json, longest: int = 80) -> str:
    """A value as JSON, cut; anything that is no JSON as what Python says of it."""
    try:
        text = json.dumps(given, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"a value that no JSON can be written of ({type(given).__name__})"
    return line(text, longest)


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
