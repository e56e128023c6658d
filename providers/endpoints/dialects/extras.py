"""Unspecified fields of an answer, such as Gemini's thought signatures, which must go back with the next request."""

from __future__ import annotations

from collections.abc import Mapping

from store.events import Json

_STREAMED_TEXTS = ("text", "summary", "thinking")
"""Fields of list entries whose texts arrive in pieces (OpenRouter's `reasoning_details`)."""


class ExtraFields:
    """Fields beyond *known* ones, merged over the pieces of a stream.

    Objects are merged, lists are joined, and of other values the last one counts. Consecutive list entries of one type
    and index are one entry whose texts arrive in pieces.
    """

    def __init__(self, known: frozenset[str]) -> None:
        self._known = known
        self.fields: dict[str, Json] = {}
        """The fields so far."""

    def add_fields(self, piece: Mapping[str, Json]) -> int:
        """Add the unknown fields of *piece* and return their number. Empty values are skipped."""
        extras = {name: value for name, value in piece.items() if name not in self._known and _has_content(value)}
        _merge_objects(self.fields, extras)
        return len(extras)


def _has_content(value: Json) -> bool:
    return value is not None and value not in ("", [], {})


def _merge_objects(into: dict[str, Json], piece: Mapping[str, Json]) -> None:
    """Merge *piece* into *into*. Nested objects are merged one level deep, which bounds the work per piece."""
    for name, value in piece.items():
        before = into.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            into[name] = {**before, **value}
        elif isinstance(before, list) and isinstance(value, list):
            for entry in value:
                _join_entry(before, entry)
        elif isinstance(value, list):
            into[name] = list(value)
        else:
            into[name] = value


def _join_entry(entries: list[Json], entry: Json) -> None:
    last = entries[-1] if entries else None
    if not (isinstance(last, dict) and isinstance(entry, dict) and _continues(last, entry)):
        entries.append(entry)
        return
    joined: dict[str, Json] = {**last}
    for name, value in entry.items():
        before = joined.get(name)
        if name in _STREAMED_TEXTS and isinstance(before, str) and isinstance(value, str):
            joined[name] = before + value
        elif value is not None:
            joined[name] = value
    entries[-1] = joined


def _continues(last: Mapping[str, Json], entry: Mapping[str, Json]) -> bool:
    """True if *entry* continues *last*: same type and index, and a text in pieces or its signature."""
    if last.get("type") != entry.get("type") or entry.get("index") is None or last.get("index") != entry.get("index"):
        return False
    if "data" in entry or "data" in last or (entry.get("id") and last.get("id") and entry["id"] != last["id"]):
        return False
    return any(name in entry for name in (*_STREAMED_TEXTS, "signature"))
