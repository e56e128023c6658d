"""What models write as the arguments of tool calls, read and written back."""

from __future__ import annotations

import json
from typing import Any

from providers.base import ToolCall

INVALID = object()
"""Stands for a text that is no JSON; None is a JSON value."""


def parsed(text: str) -> Any:
    """The JSON value, or `INVALID`: bad syntax, NaN and its kin, nesting or numbers beyond all measure."""
    try:
        return json.loads(text, parse_constant=_refuse)
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
    return ToolCall(id=call_id, name=name, arguments=arguments, raw=raw)


def written(call: ToolCall) -> str:
    """The arguments as the model wrote them. What was no JSON object goes back as an empty one: templates of open
    models parse the arguments again and would refuse the whole request; the tool's answer says what was wrong.
    """
    if not call.arguments:
        return "{}"
    return call.raw or json.dumps(dict(call.arguments), ensure_ascii=False)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
