"""What happens during an attempt: a closed union, in the past tense, in the order of a run's life.

The stored `kind` is the class attribute `kind`; the stored payload is the class's fields by their names, with fields
that are None left out. The text an answer streams is no event of its own here: the ledger turns deltas into
`text` and `reasoning` segments (see `segments.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, get_args

import attrs

Json = Any
"""A JSON value: null, boolean, number, string, list or object."""


@attrs.frozen(kw_only=True)
class WorkStarted:
    """The workspace is ready and the subject has its assignment."""

    kind: ClassVar[str] = "work_started"
    instructions: str
    prompt: str
    tools: tuple[str, ...]
    model: str
    tool_specs: str | None = None
    """The tools as the model is told about them, as JSON text: what a replay compares."""


@attrs.frozen(kw_only=True)
class CallSent:
    """One HTTP (or CLI) request leaves for a provider.

    `request` counts from 1 within the attempt and is the last part of the Idempotency-Key; `tries` is how often the
    same request was sent before.
    """

    kind: ClassVar[str] = "call_sent"
    request: int
    tries: int = 0
    account: str
    model: str
    bytes: int
    max_output_tokens: int | None = None


@attrs.frozen(kw_only=True)
class CallResponded:
    """Status and headers have arrived; the body has not been read yet."""

    kind: ClassVar[str] = "call_responded"
    request: int
    tries: int = 0
    status: int
    provider_request_id: str | None = None


@attrs.frozen(kw_only=True)
class Call:
    """One request has ended, answered or failed, and this is what it cost."""

    kind: ClassVar[str] = "call"
    request: int
    tries: int = 0
    account: str
    status: int | None = None
    provider_request_id: str | None = None
    model: str | None = None
    finish: str | None = None
    usage: Mapping[str, int] | None = None
    tokens: int = 0
    """What it was charged against the sweep's caps: the usage, or its bound where no usage was reported."""
    cost_nusd: int | None = None
    cost_source: str | None = None
    """`prices`; `reported`, by the provider itself; `bound`: at most so much. None: the cost is unknown."""
    wall_ms: int = 0
    tool_calls: tuple[Mapping[str, Json], ...] = ()
    refusal: str | None = None
    continuation: Json = None
    """Provider data that goes back with the next request."""
    error: str | None = None
    message: str | None = None
    retry_in_ms: int | None = None


@attrs.frozen(kw_only=True)
class Waited:
    """The attempt stood still at the gate; its wall budget did too."""

    kind: ClassVar[str] = "waited"
    why: str
    ms: int


@attrs.frozen(kw_only=True)
class ToolStarted:
    """The agent runs a tool the model called."""

    kind: ClassVar[str] = "tool_started"
    id: str
    name: str
    arguments: Json
    effect: str


@attrs.frozen(kw_only=True)
class ToolCompleted:
    """A tool call has been answered; `output` is the text given back to the model."""

    kind: ClassVar[str] = "tool_completed"
    id: str
    name: str
    is_error: bool
    output: str
    ms: int


@attrs.frozen(kw_only=True)
class Incident:
    """Something a reader of the report should know; `name` is the word the report counts."""

    kind: ClassVar[str] = "incident"
    name: str
    detail: Mapping[str, Json] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class WorkEnded:
    """The subject has stopped; verification comes next."""

    kind: ClassVar[str] = "work_ended"
    stop: str
    reason: str | None = None
    text: str = ""


Event = WorkStarted | CallSent | CallResponded | Call | Waited | ToolStarted | ToolCompleted | Incident | WorkEnded


def payload(event: Event) -> dict[str, Json]:
    """The event's stored fields: None, and nothing else, is left out."""
    return {name: value for name in _FIELDS[type(event)] if (value := getattr(event, name)) is not None}


_FIELDS = {kind: tuple(field.name for field in attrs.fields(kind)) for kind in get_args(Event)}
