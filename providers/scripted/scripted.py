"""The scripted provider: plays a JSON script per task instead of calling a model.

For demonstrations, for trying out a suite, and for tests that need a fault at a known point. It keeps no state: the
next answer depends on the request alone, so that a resumed run, another process and a retry get the same one.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import attrs

from providers.base import (
    Answer,
    AssistantTurn,
    Emit,
    Finish,
    Message,
    ReasoningDelta,
    Request,
    Responded,
    TextDelta,
    ToolAnswer,
    ToolCall,
    ToolSpec,
    UserText,
)
from providers.endpoints.faults import RETRYABLE_KINDS
from providers.errors import ProviderError
from providers.scripted.script import SCRIPTS_FOLDER, Fault, Play, Script, ScriptedAnswer, ScriptedCall, read_scripts
from store.errors import UsageError
from store.events import Json

if TYPE_CHECKING:
    from providers.registry import ProviderOptions

SCRIPTED_NAME = "scripted"
SCRIPT_ENDED = ScriptedAnswer(text="Script ended.")
"""The answer after the end of a script."""

_REFERENCE = re.compile(r"\$\{(.+)\.([A-Za-z0-9_]+)\}")


@attrs.frozen(kw_only=True)
class PreparedAnswer:
    """An answer prepared once, so that playing it is cheap."""

    scripted: ScriptedAnswer
    pieces: tuple[str, ...]
    calls: tuple[ToolCall, ...]
    refers: bool
    """True if a call's arguments refer to results of earlier calls."""
    finish: Finish


@attrs.frozen(kw_only=True)
class PreparedPlay:
    """One prepared course of a run: its turns, and its summaries of the transcript."""

    answers: tuple[PreparedAnswer, ...]
    compaction: tuple[PreparedAnswer, ...]


class ScriptedProvider:
    """Plays scripts; any number of runs may share it. Implements `providers.base.Provider`."""

    name = SCRIPTED_NAME
    account = SCRIPTED_NAME

    def __init__(self, scripts: Mapping[str, Script], *, root: Path | None = None) -> None:
        """Play *scripts*, by task id; *root* is the suite's directory, for messages."""
        self._root = root
        self._plays = {task: _prepare_plays(script.plays) for task, script in scripts.items()}
        self._apart = {
            (task, variant): _prepare_plays(plays)
            for task, script in scripts.items()
            for variant, plays in script.variants.items()
        }
        self._tools: tuple[ToolSpec, ...] | None = None
        self._tools_size = 0

    def size(self, request: Request) -> int:
        """UTF-8 bytes of texts, calls and tool descriptions: an approximate size that is equal for equal requests."""
        if request.tools is not self._tools:  # all requests of a run share one tuple
            self._tools = request.tools
            self._tools_size = sum(
                len(tool.name) + _count_bytes(tool.description) + len(json.dumps(tool.input_schema))
                for tool in request.tools
            )
        return (
            _count_bytes(request.instructions)
            + self._tools_size
            + sum(_count_message_bytes(message) for message in request.messages)
        )

    async def answer(self, request: Request, emit: Emit) -> Answer:
        """Play the answer for the request's turn.

        Raises:
            ProviderError: the script has a fault here, or the task has no script (`not_found`).
        """
        name, prepared = self._find_answer(request)
        scripted = prepared.scripted
        fault = scripted.faults[request.tries] if request.tries < len(scripted.faults) else None
        pause = scripted.latency_ms / 1000 / max(1, len(prepared.pieces))
        if fault is not None and fault.after_chunks is None:
            await anyio.sleep(scripted.latency_ms / 1000)
            if fault.status is not None:
                emit(Responded(status=fault.status, provider_request_id=name))
            raise _build_error(fault, request, "")
        emit(Responded(status=200, provider_request_id=name))
        await self._stream_deltas(request, prepared, fault, pause, emit)
        calls = prepared.calls
        if prepared.refers:
            calls = tuple(_build_call(call, request.messages) for call in scripted.tool_calls)
        return Answer(
            text=scripted.text,
            reasoning=scripted.reasoning,
            calls=calls,
            usage=scripted.usage,
            finish=prepared.finish,
            finish_raw=prepared.finish,
            model=scripted.model or request.model,
            notes=() if scripted.usage is not None else ("usage_unreported",),
        )

    async def aclose(self) -> None:
        """Do nothing, as there is nothing to release."""

    def _find_answer(self, request: Request) -> tuple[str, PreparedAnswer]:
        origin = request.origin
        names = (f"{origin.case_id}/{origin.node}", origin.case_id) if origin.node else (origin.case_id,)
        candidates = (self._apart.get((name, origin.variant)) or self._plays.get(name) for name in names)
        plays = next(filter(None, candidates), None)
        if plays is None:
            file = f"{SCRIPTS_FOLDER}/{origin.case_id}.json"
            where = str(self._root / file) if self._root is not None else file
            raise ProviderError(kind="not_found", message=f"no script for this task: {where}", retryable=False)
        play = plays[origin.repetition % len(plays)]
        place = request.turn
        if place is None:
            place = sum(isinstance(message, AssistantTurn) for message in request.messages)
        if request.purpose == "compaction":
            answers, name = play.compaction, f"scripted-compaction-{place}"
        else:
            answers, name = play.answers, f"scripted-{place}"
        return name, answers[place] if place < len(answers) else _PREPARED_ENDED

    async def _stream_deltas(
        self, request: Request, prepared: PreparedAnswer, fault: Fault | None, pause: float, emit: Emit
    ) -> None:
        """Emit the deltas with their delays, up to a fault or a signal."""
        scripted = prepared.scripted
        kill_at = _find_signal_delta(prepared, request)
        break_at = min(fault.after_chunks or 0, len(prepared.pieces)) if fault is not None else None
        if scripted.reasoning:
            emit(ReasoningDelta(scripted.reasoning))
        await anyio.sleep(pause)  # even without latency, so that other tasks of the event loop get a turn
        for index, piece in enumerate((*prepared.pieces, None)):
            if index == kill_at and scripted.signal is not None:
                os.kill(os.getpid(), signal.Signals[scripted.signal.name])
            if index == break_at and fault is not None:
                raise _build_error(fault, request, "".join(prepared.pieces[:index]))
            if piece is None:
                return
            if index and pause:
                await anyio.sleep(pause)
            emit(TextDelta(piece))


def open_provider(options: ProviderOptions) -> ScriptedProvider:
    """Open the scripted provider with the scripts of the suite in `options.suite_root`.

    Raises:
        UsageError: there is no suite, it has no scripts, or they are malformed.
    """
    root = options.suite_root
    if root is None:
        raise UsageError("the scripted provider needs a suite, whose scripts it plays")
    scripts = read_scripts(root)
    if not scripts:
        raise UsageError(
            f"the scripted provider found no scripts: {root / SCRIPTS_FOLDER}",
            "A script is a file scripts/<task-id>.json in the suite's directory; see docs/scripted-provider.md.",
        )
    return ScriptedProvider(scripts, root=root)


def prepare_answer(answer: ScriptedAnswer) -> PreparedAnswer:
    """Split an answer into its deltas and build its calls."""
    length, count = len(answer.text), max(1, min(answer.chunks, len(answer.text)))
    cuts = [length * index // count for index in range(count + 1)]
    pieces = tuple(answer.text[start:end] for start, end in pairwise(cuts)) if length else ()
    return PreparedAnswer(
        scripted=answer,
        pieces=pieces,
        calls=tuple(_build_call(call, ()) for call in answer.tool_calls),
        refers=any(
            "${" in json.dumps(call.arguments) for call in answer.tool_calls if isinstance(call.arguments, dict)
        ),
        finish=answer.finish or ("tool_calls" if answer.tool_calls else "stop"),
    )


_PREPARED_ENDED = prepare_answer(SCRIPT_ENDED)


def _prepare_plays(plays: tuple[Play, ...]) -> tuple[PreparedPlay, ...]:
    return tuple(
        PreparedPlay(
            answers=tuple(map(prepare_answer, play.answers)), compaction=tuple(map(prepare_answer, play.compaction))
        )
        for play in plays
    )


def _find_signal_delta(prepared: PreparedAnswer, request: Request) -> int | None:
    """The index of the delta before which the process signals itself: on the first send, in the script's attempt."""
    planned = prepared.scripted.signal
    if planned is None or request.tries:
        return None
    parts = request.key.split("/")  # SWEEP/POSITION/ATTEMPT/REQUEST
    attempt = parts[-2] if len(parts) >= 2 else ""
    return min(planned.after_chunks, len(prepared.pieces)) if attempt == str(planned.attempt) else None


def _build_error(fault: Fault, request: Request, text: str) -> ProviderError:
    return ProviderError(
        kind=fault.kind,
        message=fault.message or f"the script plays {fault.kind} in sending {request.tries + 1}",
        retryable=fault.kind in RETRYABLE_KINDS,
        status=fault.status if fault.after_chunks is None else 200,
        retry_after_s=fault.retry_after_ms / 1000 if fault.retry_after_ms is not None else None,
        mid_stream=fault.after_chunks is not None,
        usage=fault.usage,
        text=text,
        model=request.model,
    )


def _build_call(call: ScriptedCall, messages: tuple[Message, ...]) -> ToolCall:
    if isinstance(call.arguments, dict):
        arguments = {key: _resolve_references(value, messages) for key, value in call.arguments.items()}
        return ToolCall(id=call.id, name=call.name, arguments=arguments, raw=json.dumps(arguments))
    try:
        parsed = json.loads(call.arguments)
    except (ValueError, RecursionError) as error:
        parsed, problem = None, f"arguments are no JSON: {error}"
    else:
        problem = "arguments are no JSON object"
    if isinstance(parsed, dict):
        return ToolCall(id=call.id, name=call.name, arguments=parsed, raw=call.arguments)
    return ToolCall(id=call.id, name=call.name, arguments=None, raw=call.arguments, problem=problem)


def _resolve_references(value: Json, messages: tuple[Message, ...]) -> Json:
    """Replace references to the results of earlier calls; an unresolved reference stays unchanged."""
    match value:
        case str():
            reference = _REFERENCE.fullmatch(value)
            return value if reference is None else _look_up_field(reference[1], reference[2], messages, value)
        case list():
            return [_resolve_references(item, messages) for item in value]
        case dict():
            return {key: _resolve_references(item, messages) for key, item in value.items()}
        case _:
            return value


def _look_up_field(call_id: str, field: str, messages: tuple[Message, ...], default: str) -> Json:
    for message in reversed(messages):
        if isinstance(message, ToolAnswer) and message.call_id == call_id:
            try:
                result = json.loads(message.text)
            except ValueError:
                return default
            return result.get(field, default) if isinstance(result, dict) else default
    return default


def _count_message_bytes(message: Message) -> int:
    match message:
        case UserText():
            return _count_bytes(message.text)
        case AssistantTurn():
            calls = sum(len(call.name) + _count_bytes(call.raw) for call in message.calls)
            return _count_bytes(message.text) + _count_bytes(message.reasoning) + calls
        case ToolAnswer():
            return _count_bytes(message.text)


def _count_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
