"""The stored JSON encoding: compact and pure ASCII, for any value that a model or a tool produces.

Non-ASCII and control characters are written as escapes, so NUL and lone surrogates never reach SQLite as such, and
are read back unchanged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

LONGEST = 64 << 20
"""Largest number of characters kept of one string."""
DEEPEST = 200
"""Levels of nesting kept of a value that is nested too deeply for the encoder."""


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


_encode: Callable[[Any], str] = json.JSONEncoder(
    ensure_ascii=True, check_circular=False, allow_nan=False, separators=(",", ":"), default=_plain
).encode


def encode(value: Any) -> str:
    """Encode *value* as JSON text.

    Strings longer than 64 Mi characters are cut and end in a marker. NaN and infinities, which JSON lacks, become
    strings. A value nested too deeply for the encoder is replaced by a marker from level 200 on.
    """
    try:
        text = _encode(value)
    except (ValueError, RecursionError):
        text = _encode(_tame(value, 0))
    return text if len(text) <= LONGEST else _encode(_tame(value, 0))


def _tame(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[:LONGEST]}\n[cut: {len(value) - LONGEST} more characters]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if depth >= DEEPEST and isinstance(value, Mapping | list | tuple):
        return "[cut: nested too deeply]"
    if isinstance(value, Mapping):
        return {_tame(key, depth): _tame(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_tame(inner, depth + 1) for inner in value]
    return value
