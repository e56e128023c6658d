"""Cassettes rebuilt from the events of a stored sweep, so that its runs replay as if they had been recorded.

Events are stored after redaction. A run whose record contains the mark of a removed secret cannot be replayed, because
the original text is lost. A run whose context was compacted cannot be replayed either, because its requests do not
follow from its events alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from orchestrator.suite.effects import make_policy
from orchestrator.suite.model import Suite, Task
from orchestrator.suite.recordings.cassettes import make_rules
from orchestrator.suite.recordings.recordings import Recordings
from orchestrator.suite.settings import Settings
from orchestrator.workspaces.fixture import WORKSPACE_NAME
from providers.agent.calls import MODEL_OUTPUT_CHARS, make_sendable, truncate_output
from providers.agent.loop import OUTPUT_LIMIT_NOTICE
from providers.base import (
    AgentSettings,
    Answer,
    AssistantTurn,
    Message,
    Origin,
    ReasoningDelta,
    Request,
    Responded,
    TextDelta,
    ToolAnswer,
    ToolCall,
    ToolSpec,
    UserText,
)
from providers.endpoints.arguments import build_tool_call
from providers.errors import ProviderError
from providers.recording.cassette import Cassette, CassetteHeader, RecordedCall, RecordedEvent
from providers.recording.material import compute_fingerprint
from providers.recording.normalization import RUN_MARK, SWEEP_MARK, WORKSPACE_MARK, Normalizer, RunPlaces
from providers.recording.recorder import map_answer_texts
from providers.usage import Usage
from store.errors import UsageError
from store.rows import CellRecord, EventRow, RunRecord, SweepRow
from store.secrets.redactor import MARK_PREFIX

if TYPE_CHECKING:
    from store.sql.reader import Reader

UNREPLAYABLE_INCIDENTS = ("compaction", "context_reduced", "duplicate_tool_call_id")
"""Incidents after which the requests cannot be rebuilt from the events."""


@attrs.define
class Unplayable(Exception):
    """A stored run cannot be replayed. This module catches the error."""

    reason: str


def rebuild_recordings(reader: Reader, sweep: SweepRow, suite: Suite, tasks: Sequence[Task]) -> Recordings:
    """Rebuild the cassettes of every run of *tasks* in the sweep; `missing` gives the reason for each other run.

    Raises:
        UsageError: the sweep compares variants.
    """
    cells = {cell.id: cell for cell in reader.list_cells(sweep.id)}
    if any(cell.variant for cell in cells.values()):
        raise UsageError(f"--from: sweep {sweep.name} compares variants; only sweeps of one configuration are replayed")
    chosen = {task.id: task for task in tasks}
    stored = Settings.from_json(sweep.conditions["settings"])
    cassettes: dict[tuple[str, int], Cassette] = {}
    missing: dict[tuple[str, int], str] = {}
    for run in reader.iterate_runs(sweep.id):
        cell = cells[run.cell_id]
        task = chosen.get(cell.case_id)
        if task is None:
            continue
        try:
            cassettes[task.id, run.repetition] = _rebuild_cassette(reader, sweep, run, cell, task, stored, suite)
        except Unplayable as error:
            missing[task.id, run.repetition] = f"{sweep.name}/{run.position}: {error.reason}"
    why = f"sweep {sweep.name} did not run it"
    for task_id in chosen:
        for repetition in range(sweep.repetitions):
            if (task_id, repetition) not in cassettes:
                missing.setdefault((task_id, repetition), why)
    return Recordings(cassettes=cassettes, missing=missing, any_repetition=False)


def _rebuild_cassette(  # noqa: PLR0917 - all of them belong to one run
    reader: Reader, sweep: SweepRow, run: RunRecord, cell: CellRecord, task: Task, stored: Settings, suite: Suite
) -> Cassette:
    if run.attempt_id is None or not run.judged:
        raise Unplayable("it has no judged result")
    if run.reason == "maxWallMs":
        raise Unplayable("it ran out of time, and a replay cannot stop at the same point")
    events = list(reader.iterate_events(run.attempt_id))
    text = json.dumps([dict(event.payload) for event in events])
    if MARK_PREFIX in text:
        raise Unplayable("its record contains the mark of a removed secret, so the original text is lost")
    marker = f"{sweep.name}/{run.position}/{run.attempt_number}"
    pairs = [(marker, RUN_MARK), (sweep.name, SWEEP_MARK)]
    # longest first, because the workspace's path contains the sweep's name
    pairs = [
        (path, WORKSPACE_MARK) for path in _find_workspaces(text, sweep.name, run.position, run.attempt_number)
    ] + pairs
    rules = make_rules(task)
    rebuilt = _Rebuilt(
        agent=stored.select_agent(task.agent),
        origin=Origin(suite_id=suite.suite_id, case_id=task.id, repetition=run.repetition),
        places=RunPlaces(tuple(pairs)),
        normalizer=Normalizer(RunPlaces(tuple(pairs)), rules),
    )
    for event in events:
        rebuilt.add_event(event)
    rebuilt.close_call()
    return Cassette(
        header=CassetteHeader(
            suite_id=suite.suite_id,
            suite_version=cell.suite_version,
            task_id=task.id,
            config_hash=cell.config_hash,
            model=rebuilt.model,
            effects=tuple(sorted(make_policy(task, stored.grants).granted)),
            rules=rules,
        ),
        calls=tuple(rebuilt.calls),
    )


def _find_workspaces(text: str, sweep: str, position: int, number: int | None) -> list[str]:
    """Find the paths in a text that name the run's workspace, the longest first."""
    run = f"{position}-{number}"  # older sweeps had no directory for each run
    name = rf"evalctl-(?:kept-|{re.escape(sweep)}-\d+-)\w{{8}}/(?:{run}(?!\d)|run-{run}/{WORKSPACE_NAME}\b)"
    if "/evalctl-" not in text:
        return []
    return sorted(set(re.findall(rf"(?:/(?!evalctl-)[\w.+-]{{1,255}}){{0,40}}/{name}", text)), key=len, reverse=True)


@attrs.define(kw_only=True)
class _Rebuilt:
    """Rebuilds the model calls of a run from its events."""

    agent: AgentSettings
    origin: Origin
    places: RunPlaces
    normalizer: Normalizer
    calls: list[RecordedCall] = attrs.field(factory=list[RecordedCall])
    model: str = ""
    instructions: str = ""
    tools: tuple[ToolSpec, ...] = ()
    messages: list[Message] = attrs.field(factory=list[Message])
    notice: tuple[Message, ...] = ()
    turn: Answer | None = None
    """The latest answer, whose tool calls are not yet part of `messages`."""
    outputs: dict[str, ToolAnswer] = attrs.field(factory=dict[str, ToolAnswer])
    emitted: list[RecordedEvent] = attrs.field(factory=list[RecordedEvent])

    def add_event(self, event: EventRow) -> None:
        """Process the next event."""
        payload: Mapping[str, Any] = event.payload
        if "forgotten" in payload or "unreadable" in payload:
            raise Unplayable("part of its record was forgotten")
        match event.kind:
            case "work_started":
                self._begin_attempt(payload)
            case "call_sent":
                self.emitted = []
            case "call_responded":
                responded = Responded(status=payload["status"], provider_request_id=payload.get("provider_request_id"))
                self.emitted.append(responded)
            case "text":
                self.emitted.append(TextDelta(payload["text"]))
            case "reasoning":
                self.emitted.append(ReasoningDelta(payload["text"]))
            case "call" if "retry_in_ms" not in payload:
                self._begin_call(payload)
            case "tool_completed":
                self.outputs[payload["id"]] = ToolAnswer(
                    call_id=payload["id"],
                    name=make_sendable(ToolCall(id="", name=payload["name"], arguments={})).name,
                    text=truncate_output(payload["output"], MODEL_OUTPUT_CHARS),
                    is_error=payload["is_error"],
                )
            case "incident" if payload["name"] in UNREPLAYABLE_INCIDENTS:
                raise Unplayable(f"its requests cannot be rebuilt after {payload['name']}")
            case _:
                pass

    def close_call(self) -> None:
        """Finish after the last event.

        Raises:
            Unplayable: the work never began.
        """
        if not self.model:
            raise Unplayable("its work never began")

    def _begin_attempt(self, payload: Mapping[str, Any]) -> None:
        if "tool_specs" not in payload:
            raise Unplayable("it was stored by a version that did not keep the tools' descriptions")
        self.model, self.instructions = payload["model"], payload["instructions"]
        self.tools = tuple(ToolSpec(**spec) for spec in json.loads(payload["tool_specs"]))
        self.messages = [UserText(text=payload["prompt"])]

    def _begin_call(self, payload: Mapping[str, Any]) -> None:
        if payload.get("error") == "cancelled":
            raise Unplayable("it was cut off during a request")
        self._answer_tools()
        material = self.normalizer.build_material(
            Request(
                origin=self.origin,
                model=self.model,
                instructions=self.instructions,
                messages=(*self.messages, *self.notice),
                tools=self.tools,
                max_output_tokens=self.agent.max_output_tokens,
                reasoning_effort=self.agent.reasoning_effort,
                native_tools=self.agent.native_tools,
            )
        )
        hide = self.places.hide_places
        reply = self._rebuild_reply(payload)
        self.calls.append(
            RecordedCall(
                request=material,
                fingerprint=compute_fingerprint(material),
                events=tuple(
                    event if isinstance(event, Responded) else attrs.evolve(event, text=hide(event.text))
                    for event in self.emitted
                ),
                reply=reply if isinstance(reply, ProviderError) else map_answer_texts(reply, hide),
            )
        )
        self.emitted = []
        if isinstance(reply, Answer) and reply.finish != "length":
            self.notice, self.turn = (), reply
        else:
            self.notice = (UserText(text=OUTPUT_LIMIT_NOTICE),)

    def _answer_tools(self) -> None:
        """Append the latest answer and its tools' results to the messages, before the next request."""
        turn, self.turn = self.turn, None
        if turn is None:
            return
        self.messages.append(
            AssistantTurn(
                text=turn.text,
                calls=tuple(map(make_sendable, turn.calls)),
                reasoning=turn.reasoning,
                continuation=turn.continuation,
            )
        )
        self.messages += [self.outputs[call.id] for call in turn.calls if call.id in self.outputs]

    def _rebuild_reply(self, payload: Mapping[str, Any]) -> Answer | ProviderError:
        usage = Usage(**payload["usage"]) if "usage" in payload else None
        if "error" in payload:
            return ProviderError(
                kind=payload["error"],
                message=payload.get("message", ""),
                retryable=False,
                status=payload.get("status"),
                usage=usage,
            )
        return Answer(
            text="".join(event.text for event in self.emitted if isinstance(event, TextDelta)),
            reasoning="".join(event.text for event in self.emitted if isinstance(event, ReasoningDelta)),
            refusal=payload.get("refusal", ""),
            calls=tuple(map(_rebuild_tool_call, payload.get("tool_calls", ()))),
            usage=usage,
            finish=payload.get("finish"),
            model=payload.get("model"),
            continuation=payload.get("continuation"),
            notes=() if usage is not None else ("usage_unreported",),
        )


def _rebuild_tool_call(stored: Mapping[str, Any]) -> ToolCall:
    arguments = stored["arguments"]
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return build_tool_call(stored["id"], stored["name"], raw)
