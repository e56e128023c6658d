"""The events of an attempt: a closed union of classes, in the order in which they occur.

The stored `kind` is the class attribute `kind`; the stored payload is the fields by name, without those that are None.
A new event is a class here and a member of `Event`; its field names are a stored format and never change. Streamed
answer text has no class here: the ledger turns deltas into `text` and `reasoning` segments (`segments.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, get_args

import attrs

Json = Any
"""A JSON value: null, boolean, number, string, list or object."""


@attrs.frozen(kw_only=True)
class WorkStarted:
    """The workspace is ready and the subject has received its assignment."""

    kind: ClassVar[str] = "work_started"
    instructions: str
    prompt: str
    tools: tuple[str, ...]
    model: str
    tool_specs: str | None = None
    """The tool specifications sent to the model, as JSON text; a replay compares them."""


@attrs.frozen(kw_only=True)
class CallSent:
    """A request (HTTP or CLI) was sent to a provider.

    `request` counts from 1 within the attempt and is the last part of the Idempotency-Key; `tries` is the number of
    earlier sends of the same request.
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
    """The response's status and headers arrived; its body has not been read yet."""

    kind: ClassVar[str] = "call_responded"
    request: int
    tries: int = 0
    status: int
    provider_request_id: str | None = None


@attrs.frozen(kw_only=True)
class Call:
    """A request ended, answered or failed, with its usage and cost."""

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
    """Tokens charged against the sweep's caps: the reported usage, or the request's upper bound without one."""
    cost_nusd: int | None = None
    cost_source: str | None = None
    """`prices` (from the price table), `reported` (by the provider) or `bound` (upper bound); None: cost unknown."""
    wall_ms: int = 0
    tool_calls: tuple[Mapping[str, Json], ...] = ()
    refusal: str | None = None
    continuation: Json = None
    """Opaque provider data to send back with the next request."""
    error: str | None = None
    message: str | None = None
    retry_in_ms: int | None = None


@attrs.frozen(kw_only=True)
class Waited:
    """The attempt waited at the gate; the wait does not count against its wall-clock budget."""

    kind: ClassVar[str] = "waited"
    why: str
    ms: int


@attrs.frozen(kw_only=True)
class ToolStarted:
    """The agent started a tool that the model called."""

    kind: ClassVar[str] = "tool_started"
    id: str
    name: str
    arguments: Json
    effect: str


@attrs.frozen(kw_only=True)
class ToolCompleted:
    """A tool call ended; `output` is the text returned to the model."""

    kind: ClassVar[str] = "tool_completed"
    id: str
    name: str
    is_error: bool
    output: str
    ms: int


@attrs.frozen(kw_only=True)
class Incident:
    """An incident worth reporting; the report counts incidents by `name`."""

    kind: ClassVar[str] = "incident"
    name: str
    detail: Mapping[str, Json] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class WorkEnded:
    """The subject stopped; verification follows."""

    kind: ClassVar[str] = "work_ended"
    stop: str
    reason: str | None = None
    text: str = ""


Event = WorkStarted | CallSent | CallResponded | Call | Waited | ToolStarted | ToolCompleted | Incident | WorkEnded


def build_payload(event: Event) -> dict[str, Json]:
    """Return the stored payload of *event*: its fields by name, without those that are None."""
    return {name: value for name in _FIELDS[type(event)] if (value := getattr(event, name)) is not None}


_FIELDS = {kind: tuple(field.name for field in attrs.fields(kind)) for kind in get_args(Event)}
