"""What a tool is, and whether a model's arguments fit it."""

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
    """A tool could not do what the model asked; the message is written for the model."""

    message: str

    def __str__(self) -> str:
        return self.message


@attrs.frozen(kw_only=True)
class Place:
    """Where tools work."""

    workspace: Path
    marker: str
    home: Callable[[], Path]
    """HOME and TMPDIR of commands, made when it is first asked for."""
    materialise: Callable[[], None] | None = None
    """Puts the workspace on the disk; called before a tool runs."""
    allow_private: bool = False
    """Whether a tool may connect to addresses of this machine and of private networks."""
    sandbox: Sandbox | None = None
    """What commands are confined by."""


Run = Callable[[Place, Mapping[str, Json]], Awaitable[str]]
"""Does what the arguments say and returns the text for the model.

Raises:
    ToolFailed, PathEscapes, ProcessNotStarted, OSError, UnicodeError: told to the model as an error.
"""


@attrs.frozen(kw_only=True)
class Tool:
    """A tool: how the model sees it, what it may touch, and what it does."""

    spec: ToolSpec
    effect: Effect
    run: Run

    @property
    def name(self) -> str:
        """What the model calls it by."""
        return self.spec.name


def parameters(required: tuple[str, ...] = (), **properties: Mapping[str, Json]) -> dict[str, Json]:
    """The schema of a tool's arguments; no others are accepted."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def misfit(schema: Mapping[str, Json], arguments: Mapping[str, Json]) -> str | None:
    """Everything about *arguments* that does not fit a schema made by `parameters`; None where they fit.

    Knows `type`, and `minimum` and `maximum`, which every integer has; that is all our tools use.
    """
    known: Mapping[str, Mapping[str, Json]] = schema["properties"]
    problems = [f"{name} is missing" for name in schema["required"] if name not in arguments]
    for name, value in arguments.items():
        rule = known.get(name)
        if rule is None:
            problems.append(f"{name[:100]} is unknown (known: {', '.join(known)})")
            continue
        wanted = rule["type"] if isinstance(rule["type"], list) else [rule["type"]]
        if not any(_is(value, word) for word in wanted):
            problems.append(f"{name} must be {' or '.join(wanted)}")
        elif isinstance(value, int) and not rule["minimum"] <= value <= rule["maximum"]:
            problems.append(f"{name} must be from {rule['minimum']} to {rule['maximum']}")
    return "; ".join(problems) if problems else None


def _is(value: Json, word: str) -> bool:
    match word:
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "null":
            return value is None
        case _:
            raise AssertionError(word)
