"""Tools: their interface, and validation of a model's arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from providers.base import Effect, ToolSpec
from store.errors import EvalctlError
from store.events import Json

if TYPE_CHECKING:
    from providers.system.sandbox import Sandbox


@attrs.define(slots=False)
class ToolFailed(EvalctlError):
    """A tool call failed; the message is written for the model."""

    message: str

    def __str__(self) -> str:
        return self.message


@attrs.frozen(kw_only=True)
class ToolContext:
    """The context of tool calls: workspace, home, permissions and sandbox."""

    workspace: Path
    marker: str
    home: Callable[[], Path]
    """Returns HOME and TMPDIR of commands, created on the first call."""
    materialise: Callable[[], None] | None = None
    """Writes the workspace to disk; called before a tool runs."""
    allow_private: bool = False
    """True if tools may connect to addresses of this machine and of private networks."""
    sandbox: Sandbox | None = None
    """The sandbox of commands; None: no confinement."""


ToolFunction = Callable[[ToolContext, Mapping[str, Json]], Awaitable[str]]
"""Runs a tool with the given arguments and returns the text for the model.

Raises:
    ToolFailed, PathEscapes, ProcessNotStarted, OSError, UnicodeError: reported to the model as an error.
"""


@attrs.frozen(kw_only=True)
class Tool:
    """A tool: its spec for the model, the effect that needs permission, and its function."""

    spec: ToolSpec
    effect: Effect
    run: ToolFunction

    @property
    def name(self) -> str:
        """The name in tool calls."""
        return self.spec.name


def build_parameters(required: tuple[str, ...] = (), **properties: Mapping[str, Json]) -> dict[str, Json]:
    """Build the JSON Schema of a tool's arguments; other arguments are refused."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def integer_up_to(maximum: int, description: str) -> dict[str, Json]:
    """Build the JSON Schema of an argument from 1 to *maximum*."""
    return {"type": "integer", "minimum": 1, "maximum": maximum, "description": description}


def find_argument_problems(schema: Mapping[str, Json], arguments: Mapping[str, Json]) -> str | None:
    """Validate *arguments* against a schema made by `build_parameters`; returns all problems as one text, or None.

    Supports `type`, and `minimum` and `maximum`, which every integer has: no tool uses more.
    """
    known: Mapping[str, Mapping[str, Json]] = schema["properties"]
    problems = [f"{name} is missing" for name in schema["required"] if name not in arguments]
    for name, value in arguments.items():
        rule = known.get(name)
        if rule is None:
            problems.append(f"{name[:100]} is unknown (known: {', '.join(known)})")
            continue
        wanted = rule["type"] if isinstance(rule["type"], list) else [rule["type"]]
        if not any(_matches_type(value, word) for word in wanted):
            problems.append(f"{name} must be {' or '.join(wanted)}")
        elif isinstance(value, int) and not rule["minimum"] <= value <= rule["maximum"]:
            problems.append(f"{name} must be from {rule['minimum']} to {rule['maximum']}")
    return "; ".join(problems) if problems else None


def _matches_type(value: Json, word: str) -> bool:
    match word:
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "null":
            return value is None
        case _:
            raise AssertionError(word)
