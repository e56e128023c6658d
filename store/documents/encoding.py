"""JSON as it is stored: compact, pure ASCII, whatever a model or a tool has put into the strings.

Every character beyond ASCII is written as an escape, so NUL, control characters and lone surrogates never reach SQLite
as such and come back as they were.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

LONGEST = 64 << 20
"""Characters of one string that are kept."""
DEEPEST = 200
"""Levels of nesting that are kept where the encoder cannot follow."""


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


_encode: Callable[[Any], str] = json.JSONEncoder(
    ensure_ascii=True, check_circular=False, allow_nan=False, separators=(",", ":"), default=_plain
).encode


def encode(value: Any) -> str:
    """*value* as JSON text.

    Strings longer than 64 Mi characters end in a marker; NaN and infinities, which JSON does not have, become strings;
    what is nested too deeply to be written becomes a marker at level 200.
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
