"""The stored JSON encoding: compact and pure ASCII, for any value that a model or a tool produces.

Non-ASCII and control characters are written as escapes, so NUL and lone surrogates never reach SQLite as such, and
are read back unchanged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

MAX_STRING_CHARACTERS = 64 << 20
"""Largest number of characters kept of one string."""
MAX_NESTING = 200
"""Levels of nesting kept of a value that is nested too deeply for the encoder."""


def _convert_mapping(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


_encode_compact: Callable[[Any], str] = json.JSONEncoder(
    ensure_ascii=True, check_circular=False, allow_nan=False, separators=(",", ":"), default=_convert_mapping
).encode


def encode_json(value: Any) -> str:
    """Encode *value* as JSON text.

    Strings longer than 64 Mi characters are cut and end in a marker. NaN and infinities, which JSON lacks, become
    strings. A value nested too deeply for the encoder is replaced by a marker from level 200 on.
    """
    try:
        text = _encode_compact(value)
    except (ValueError, RecursionError):
        text = _encode_compact(_limit_value(value, 0))
    return text if len(text) <= MAX_STRING_CHARACTERS else _encode_compact(_limit_value(value, 0))


def _limit_value(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return (
            value
            if len(value) <= MAX_STRING_CHARACTERS
            else f"{value[:MAX_STRING_CHARACTERS]}\n[cut: {len(value) - MAX_STRING_CHARACTERS} more characters]"
        )
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if depth >= MAX_NESTING and isinstance(value, Mapping | list | tuple):
        return "[cut: nested too deeply]"
    if isinstance(value, Mapping):
        return {_limit_value(key, depth): _limit_value(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_limit_value(inner, depth + 1) for inner in value]
    return value
