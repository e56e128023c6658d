"""What models write as the arguments of tool calls, read and written back."""

from __future__ import annotations

import json
import math
from typing import Any

from providers.base import ToolCall
from store.events import Json

INVALID = object()
"""Stands for a text that is no JSON; None is a JSON value."""

MAX_DEPTH = 200
"""How deep arguments may be nested: they are written again inside requests and records, whose writers recurse."""


def parsed(text: str | bytes) -> Any:
    """The JSON value, or `INVALID`: bad syntax, NaN and its kin, nesting or numbers beyond all measure."""
    try:
        return json.loads(text, parse_constant=no_constant, parse_float=finite)
    except (ValueError, RecursionError):
        return INVALID


def tool_call(call_id: str, name: str, raw: str) -> ToolCall:
    """The call whose arguments were written as *raw*. Nothing, and `null`, are an empty object."""
    if raw.strip() in {"", "null"}:
        return ToolCall(id=call_id, name=name, arguments={}, raw=raw)
    arguments = parsed(raw)
    if arguments is INVALID:
        return ToolCall(id=call_id, name=name, arguments=None, raw=raw, problem="invalid_json")
    if not isinstance(arguments, dict):
        return ToolCall(id=call_id, name=name, arguments=None, raw=raw, problem="not_an_object")
    if deeper(arguments, MAX_DEPTH):
        return ToolCall(id=call_id, name=name, arguments=None, raw=raw, problem="nested_too_deeply")
    return ToolCall(id=call_id, name=name, arguments=arguments, raw=raw)


def as_text(given: Json) -> str:
    """Arguments that came as a value and not as a text, for `tool_call`; None is nothing. What is nested too deeply to
    be written becomes a text that is no JSON.
    """
    if given is None:
        return ""
    try:
        return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    except RecursionError:
        return "["


def written(call: ToolCall) -> str:
    """The arguments as the model wrote them. What was no JSON object goes back as an empty one: templates of open
    models parse the arguments again and would refuse the whole request; the tool's answer says what was wrong.
    """
    if not call.arguments:
        return "{}"
    return call.raw or json.dumps(dict(call.arguments), ensure_ascii=False)


def deeper(value: Json, limit: int) -> bool:
    """Whether *value* has more levels of objects and arrays than *limit*."""
    level = [value]
    for _ in range(limit + 1):
        inner: list[Json] = []
        for holder in level:
            if isinstance(holder, dict):
                inner += holder.values()
            elif isinstance(holder, list):
                inner += holder
        if not inner:
            return False
        level = inner
    return True


def finite(digits: str) -> float:
    """The number, for a decoder of JSON.

    Raises:
        ValueError: no JSON can be written with it.
    """
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def no_constant(constant: str) -> Any:
    """What a decoder of JSON makes of NaN and its kin.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{constant} is no JSON")
