"""Surrogate pairs: joins the halves of a character that a server split over two pieces.

Servers that slice strings by UTF-16 units send one half of a character above U+FFFF at the end of a piece and the other
half at the start of the next.
"""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")
_HIGH_FIRST, _HIGH_LAST = "\ud800", "\udbff"


def join_surrogates(text: str) -> str:
    """Replace each high surrogate followed by a low one with the character that they encode; a lone one stays."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class SurrogateJoiner:
    """Joins surrogate pairs in a text that arrives in pieces. Holds back a high surrogate until the next piece."""

    def __init__(self) -> None:
        self._held = ""

    def add(self, piece: str) -> str:
        """Add *piece* and return the text that can be passed on."""
        if not self._held and piece.isascii():
            return piece
        text, self._held = join_surrogates(self._held + piece), ""
        if text and _HIGH_FIRST <= text[-1] <= _HIGH_LAST:
            text, self._held = text[:-1], text[-1]
        return text

    def close(self) -> str:
        """End the text and return a lone high surrogate at its end."""
        held, self._held = self._held, ""
        return held
