"""How a message shows what others wrote: short, on one line, and nothing that a terminal would obey."""

from __future__ import annotations

import json

from store.documents.text import escape_unprintable
from store.events import Json

LONGEST = 300
"""Characters of a text in a message."""
LONGEST_VALUE = 2000
"""Characters of a value that is kept as a value, written as JSON."""
_LONGEST_TEXT = 200
_MOST_ITEMS = 20
_MOST_LEVELS = 6


def line(text: str, longest: int = LONGEST) -> str:
    r"""*text* on one line, at most *longest* characters of it; what is not printable as `\uXXXX`."""
    cut = text[: longest + 1]
    shown = escape_unprintable(cut)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def value(given: Json, longest: int = 80) -> str:
    """A value as JSON, cut; what cannot be written as JSON only by its type."""
    try:
        text = json.dumps(given, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"a value that no JSON can be written of ({type(given).__name__})"
    return line(text, longest)


def shortened(given: Json) -> Json:
    """A value that says what matters in little room: long texts, long lists and deep levels end in `…`; one that is
    large all the same is a text of its beginning.
    """
    short = _shortened(given, _MOST_LEVELS)
    text = json.dumps(short, ensure_ascii=False)
    return short if len(text) <= LONGEST_VALUE else line(text, LONGEST_VALUE)


def _shortened(given: Json, levels: int) -> Json:
    match given:
        case str():
            return given if len(given) <= _LONGEST_TEXT else f"{given[: _LONGEST_TEXT - 1]}…"
        case list() | dict() if given and not levels:
            return "…"
        case list():
            kept: list[Json] = [_shortened(item, levels - 1) for item in given[:_MOST_ITEMS]]
            return kept if len(given) <= _MOST_ITEMS else [*kept, f"… {len(given) - _MOST_ITEMS} more"]
        case dict():
            names = list(given)[:_MOST_ITEMS]
            short = {str(_shortened(name, 0)): _shortened(given[name], levels - 1) for name in names}
            return short if len(given) <= _MOST_ITEMS else {**short, "…": f"{len(given) - _MOST_ITEMS} more"}
        case int() if abs(given) >= 2**63:
            return line(hex(given), 40)
        case _:
            return given
