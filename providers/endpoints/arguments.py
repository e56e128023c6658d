"""Arguments of tool calls: parses the JSON that models write, and writes it back."""

from __future__ import annotations

import json
import math
from typing import Any

from providers.base import ToolCall
from store.events import Json

INVALID_JSON = object()
"""Result for invalid JSON, as None is a JSON value."""

MAX_NESTING = 200
"""Maximum nesting of arguments: requests and records contain them, and their encoders recurse."""


def parse_model_json(text: str | bytes) -> Any:
    """Parse JSON; `INVALID_JSON` for bad syntax, NaN and Infinity, excessive nesting or excessive numbers."""
    try:
        return json.loads(text, parse_constant=reject_constant, parse_float=parse_finite_number)
    except (ValueError, RecursionError):
        return INVALID_JSON


def build_tool_call(call_id: str, name: str, raw: str) -> ToolCall:
    """Build a call from arguments written as *raw*. An empty text and `null` mean an empty object."""
    if raw.strip() in {"", "null"}:
        return ToolCall(id=call_id, name=name, arguments={}, raw=raw)
    arguments = parse_model_json(raw)
    if arguments is INVALID_JSON:
        return ToolCall(id=call_id, name=name, arguments=None, raw=raw, problem="invalid_json")
    if not isinstance(arguments, dict):
        return ToolCall(id=call_id, name=name, arguments=None, raw=raw, problem="not_an_object")
    if exceeds_depth(arguments, MAX_NESTING):
        return ToolCall(id=call_id, name=name, arguments=None, raw=raw, problem="nested_too_deeply")
    return ToolCall(id=call_id, name=name, arguments=arguments, raw=raw)


def build_raw_call(call_id: str, name: str, raw: str) -> ToolCall:
    """Build a call of a custom tool, whose argument is a raw text that is not JSON, even if it looks like it."""
    return ToolCall(id=call_id, name=name, arguments=None, raw=raw, problem="raw_text")


def encode_arguments(given: Json) -> str:
    """Encode arguments that arrived as a value instead of a text, for `build_tool_call`; None becomes an empty text. A
    value nested too deeply to encode becomes invalid JSON.
    """
    if given is None:
        return ""
    try:
        return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    except RecursionError:
        return "["


def render_call_arguments(call: ToolCall) -> str:
    """The arguments as the model wrote them; anything but a JSON object goes back as an empty one.

    Chat templates of open models parse the arguments again and would refuse the whole request. The tool's answer
    explains the problem to the model.
    """
    if not call.arguments:
        return "{}"
    return call.raw or json.dumps(dict(call.arguments), ensure_ascii=False)


def exceeds_depth(value: Json, limit: int) -> bool:
    """True if *value* is nested more than *limit* levels deep."""
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


def parse_finite_number(digits: str) -> float:
    """Parse a number; a `parse_float` for JSON decoders.

    Raises:
        ValueError: it is too large for a float, and JSON has no infinity.
    """
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def reject_constant(constant: str) -> Any:
    """Refuse NaN and Infinity; a `parse_constant` for JSON decoders.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{constant} is no JSON")
