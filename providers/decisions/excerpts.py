"""Foreign text in messages: shortened, on one line, without control characters for a terminal."""

from __future__ import annotations

import json

from store.documents.text import escape_unprintable
from store.events import Json

MAX_LINE_CHARS = 300
"""Maximum characters of a text in a message."""
MAX_VALUE_CHARS = 2000
"""Maximum characters, as JSON, of a shortened value."""
_MAX_TEXT_CHARS = 200
_MAX_ITEMS = 20
_MAX_LEVELS = 6


def render_line(text: str, longest: int = MAX_LINE_CHARS) -> str:
    r"""Render *text* on one line with at most *longest* characters; unprintable ones as `\uXXXX`."""
    cut = text[: longest + 1]
    escaped = escape_unprintable(cut)
    return escaped if len(escaped) <= longest else f"{escaped[: longest - 1]}…"


def render_value(given: Json, longest: int = 80) -> str:
    """Render a value as JSON on one line, shortened; a value that is not JSON by its type."""
    try:
        text = json.dumps(given, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"a value that is not JSON ({type(given).__name__})"
    return render_line(text, longest)


def shorten_value(given: Json) -> Json:
    """Shorten a value: long texts, long lists and deep levels end in `…`. A value that is still too large becomes a
    text with its beginning.
    """
    short = _shorten_levels(given, _MAX_LEVELS)
    text = json.dumps(short, ensure_ascii=False)
    return short if len(text) <= MAX_VALUE_CHARS else render_line(text, MAX_VALUE_CHARS)


def _shorten_levels(given: Json, levels: int) -> Json:
    match given:
        case str():
            return given if len(given) <= _MAX_TEXT_CHARS else f"{given[: _MAX_TEXT_CHARS - 1]}…"
        case list() | dict() if given and not levels:
            return "…"
        case list():
            kept: list[Json] = [_shorten_levels(item, levels - 1) for item in given[:_MAX_ITEMS]]
            return kept if len(given) <= _MAX_ITEMS else [*kept, f"… {len(given) - _MAX_ITEMS} more"]
        case dict():
            names = list(given)[:_MAX_ITEMS]
            short = {str(_shorten_levels(name, 0)): _shorten_levels(given[name], levels - 1) for name in names}
            return short if len(given) <= _MAX_ITEMS else {**short, "…": f"{len(given) - _MAX_ITEMS} more"}
        case int() if abs(given) >= 2**63:
            return render_line(hex(given), 40)
        case _:
            return given
