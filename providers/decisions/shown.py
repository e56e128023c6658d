"""Foreign text in messages: shortened, on one line, without control characters for a terminal."""

from __future__ import annotations

import json

from store.documents.text import escape_unprintable
from store.events import Json

LONGEST = 300
"""Maximum characters of a text in a message."""
LONGEST_VALUE = 2000
"""Maximum characters, as JSON, of a shortened value."""
_LONGEST_TEXT = 200
_MOST_ITEMS = 20
_MOST_LEVELS = 6


def line(text: str, longest: int = LONGEST) -> str:
    r"""Render *text* on one line with at most *longest* characters; unprintable ones as `\uXXXX`."""
    cut = text[: longest + 1]
    shown = escape_unprintable(cut)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def value(given: Json, longest: int = 80) -> str:
    """Render a value as JSON on one line, shortened; a value that is not JSON by its type."""
    try:
        text = json.dumps(given, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"a value that is not JSON ({type(given).__name__})"
    return line(text, longest)


def shortened(given: Json) -> Json:
    """Shorten a value: long texts, long lists and deep levels end in `…`. A value that is still too large becomes a
    text with its beginning.
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
