"""The agent loop: asks the model, runs its tool calls and returns the results, until it is done or hits a limit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import Literal

import attrs

from providers.agent.answers import diagnose_answer
from providers.agent.calls import PlannedCall, ToolRunner, make_sendable
from providers.agent.context import ContextWindow
from providers.agent.fetch import FETCH_URL
from providers.agent.files import FILE_TOOLS
from providers.agent.policy import select_offered_tools
from providers.agent.search import SEARCH_TEXT
from providers.agent.shell import BASH, provide_home
from providers.agent.tools import Tool, ToolContext
from providers.base import (
    Answer,
    Ask,
    Assignment,
    AssistantTurn,
    Done,
    Message,
    Note,
    Policy,
    Request,
    ToolCall,
    ToolSpec,
    UserText,
)
from providers.errors import ProviderError
from providers.usage import UsageSum
from store.events import Incident, WorkStarted

TOOLS: tuple[Tool, ...] = (*FILE_TOOLS, SEARCH_TEXT, BASH, FETCH_URL)

MAX_CALLS_PER_TURN = 64
"""Tool calls of one turn; more end the run."""

AGENT_INSTRUCTIONS = """\
You are a coding agent working without a person present: nobody reads along, answers questions or approves steps. \
Carry out the task you are given in the workspace and then stop.

- All paths are relative to the workspace. Leave everything outside it alone.
- Look before you act: list and read the files that matter; do not guess what is in them.
- Change what the task asks for and nothing else. Keep the style of the code around it.
- Replacing or editing a file takes the sha256 that you got when you last read or wrote it.
- When a tool answers with an error, read it, correct the call, and go on.
- Check your work with the means you have, such as the project's own tests, before you stop.
- When you are done, answer without a tool call: say in a few sentences what you changed and how you checked it.
"""

OUTPUT_LIMIT_NOTICE = (
    "Your last answer was cut off at the output limit and has been dropped. Answer again, shorter: fewer or smaller "
    "tool calls, less text."
)

StopKind = Literal["completed", "failed", "budget"]


@lru_cache(maxsize=64)
def list_tool_specs(policy: Policy) -> tuple[ToolSpec, ...]:
    """The tools that a model sees: one tuple per policy, so that a provider measures its size only once."""
    return tuple(tool.spec for tool in select_offered_tools(TOOLS, policy))


@lru_cache(maxsize=64)
def render_tool_specs(policy: Policy) -> str:
    """The same tools as JSON text for the record; all runs under one policy share it."""
    return json.dumps([attrs.asdict(spec) for spec in list_tool_specs(policy)])


class BuiltinAgent:
    """Works on an assignment with file tools and a shell; implements `providers.base.Subject`."""

    def __init__(self) -> None:
        self._work: _AssignmentRun | None = None

    async def work(self, task: Assignment, ask: Ask, note: Note) -> Done:
        """Work on *task* to its end and call models only through *ask*.

        No output of the model raises: a wrong call is answered with an error, and a broken rule of the loop ends the
        work as `failed` with that reason. Cancellation leaves no process behind.

        Raises:
            ProviderError: the infrastructure failed, or the very first request was too long for the model.
        """
        with provide_home(task.home) as home:
            place = ToolContext(
                workspace=task.workspace,
                marker=task.marker,
                home=home,
                materialise=task.materialise,
                allow_private=task.allow_private,
                sandbox=task.sandbox,
            )
            tools = ToolRunner(
                tools=TOOLS, policy=task.policy, place=place, note=note, specs=list_tool_specs(task.policy)
            )
            given = task.settings.instructions
            context = ContextWindow(
                task=task,
                ask=ask,
                note=note,
                instructions=AGENT_INSTRUCTIONS if given is None else given,
                tools=tools.specs,
            )
            self._work = _AssignmentRun(task=task, ask=ask, note=note, tools=tools, context=context)
            return await self._work.run_turns()

    def so_far(self, reason: str) -> Done:
        """Summarise turns, calls and usage up to a cancellation."""
        return Done(stop="budget", reason=reason) if self._work is None else self._work.build_done("budget", reason)


@attrs.define(kw_only=True)
class _AssignmentRun:
    """One assignment in progress."""

    task: Assignment
    ask: Ask
    note: Note
    tools: ToolRunner
    context: ContextWindow
    ids: set[str] = attrs.field(factory=set[str])
    used: UsageSum = attrs.field(factory=UsageSum)
    text: str = ""
    model: str | None = None
    truncations: int = 0
    """Number of answers dropped because they hit the output limit."""

    async def run_turns(self) -> Done:
        """Run turns until one of them returns a `Done`."""
        self.note(
            WorkStarted(
                instructions=self.context.instructions,
                prompt=self.task.prompt,
                tools=tuple(tool.name for tool in self.tools.specs),
                model=self.task.model,
                tool_specs=render_tool_specs(self.task.policy),
            )
        )
        self.context.transcript.append(UserText(text=self.task.prompt))
        while True:
            ended = await self.run_turn()
            if ended is not None:
                return ended

    async def run_turn(self) -> Done | None:
        """Ask the model, check its answer, run its calls; returns a `Done` if the work has ended."""
        task = self.task
        if self.used.turns >= min(task.max_turns, task.settings.max_turns):
            return self.build_done("budget", "maxTurns")
        try:
            reason = await self.context.fit_transcript()
            answer = await self.request_answer() if reason is None else None
        except ProviderError as error:
            reason = self.find_model_fault(error)
            if reason is None:
                raise
            return self.build_done("failed", reason)
        if answer is None:
            return self.build_done("failed", reason or "truncated_output")
        self.record_answer(answer)
        ended = self.judge_answer(answer)
        if ended is not None:
            return ended

        calls = self.make_ids_unique(answer.calls)
        transcript = self.context.transcript
        transcript.append(
            AssistantTurn(
                text=answer.text,
                calls=tuple(make_sendable(planned.call) for planned in calls),
                reasoning=answer.reasoning,
                continuation=answer.continuation,
            ),
            answer.usage,
        )
        allowed = len(calls) if task.max_tool_calls is None else task.max_tool_calls - len(self.tools.uses)
        for tool_answer in await self.tools.answer_calls(calls[:allowed]):
            transcript.append(tool_answer)
        return self.build_done("budget", "maxToolCalls") if len(calls) > allowed else None

    def judge_answer(self, answer: Answer) -> Done | None:
        """Return the end of the work if *answer* is unusable, exceeds a limit, or is the last one; None otherwise."""
        reason = diagnose_answer(answer)
        if reason is not None:
            return self.build_done("failed", reason)
        if self.task.max_tokens is not None and self.used.tokens > self.task.max_tokens:
            return self.build_done("budget", "maxTokens")
        if len(answer.calls) > MAX_CALLS_PER_TURN:
            return self.build_done("failed", "too_many_tool_calls")
        if not answer.calls and answer.finish != "pause":
            return self.build_done("completed")
        return None

    async def request_answer(self) -> Answer | None:
        """The model's next complete answer; None if answers hit the output limit too often.

        Raises:
            ProviderError: see `Ask`.
        """
        settings = self.task.settings
        notice: tuple[Message, ...] = ()
        while True:
            answer = await self.ask(
                Request(
                    origin=self.task.origin,
                    model=self.task.model,
                    instructions=self.context.instructions,
                    messages=(*self.context.transcript.messages, *notice),
                    tools=self.tools.specs,
                    max_output_tokens=settings.max_output_tokens,
                    reasoning_effort=settings.reasoning_effort,
                    first_token_timeout_ms=settings.first_token_timeout_ms,
                    native_tools=settings.native_tools,
                    turn=self.used.turns,
                )
            )
            if answer.finish != "length":
                return answer
            self.text = answer.text
            self.model = answer.model or self.model
            if self.truncations >= settings.truncation_recoveries:
                return None
            self.truncations += 1
            self.note(
                Incident(
                    name="truncation_recovery",
                    detail={
                        "attempt": self.truncations,
                        "of": settings.truncation_recoveries,
                        "turn": self.used.turns + 1,
                        "reason": classify_truncation(answer),
                        "maxOutputTokens": settings.max_output_tokens,
                    },
                )
            )
            notice = (UserText(text=OUTPUT_LIMIT_NOTICE),)

    def find_model_fault(self, error: ProviderError) -> str | None:
        """The failure reason if the model caused *error*, else None. An overlong first request is the suite's fault."""
        if error.kind == "context_length":
            return "context_overflow" if self.used.turns else None
        return error.kind if error.kind in ("bad_tool_call", "content_filter") else None

    def record_answer(self, answer: Answer) -> None:
        """Record an answer and its usage as one turn."""
        self.text = answer.text or answer.refusal
        self.model = answer.model or self.model
        already_noted = self.used.unreported > 0
        self.used.add(answer.usage)
        # The gate counts the notes of an answer, so only what no note says is reported here, and once.
        if self.used.unreported and not already_noted and "usage_unreported" not in answer.notes:
            self.note(Incident(name="usage_unreported", detail={"turn": self.used.turns}))

    def make_ids_unique(self, calls: Sequence[ToolCall]) -> list[PlannedCall]:
        """Give the calls unique ids, since an endpoint expects exactly one answer per id.

        1. An id of an earlier turn (some servers count from 0 in every answer): the call runs under a new id.
        2. An id used twice in one turn (ambiguous, or a stream that stuttered): the later call is answered with an
           error under a new id.
        """
        planned: list[PlannedCall] = []
        here: set[str] = set()
        for call in calls:
            twice = call.id in here
            here.add(call.id)
            if call.id and call.id not in self.ids:
                self.ids.add(call.id)
                planned.append(PlannedCall(call=call))
                continue
            fresh = next(name for n in count(2) if (name := f"{call.id[:40] or 'call'}-{n}") not in self.ids)
            self.ids.add(fresh)
            if call.id:
                self.note(Incident(name="duplicate_tool_call_id", detail={"id": call.id[:200], "renamed": fresh}))
            problem = f"the id {call.id[:100]!r} was used twice in this turn; this call was not run" if twice else None
            planned.append(PlannedCall(call=attrs.evolve(call, id=fresh), problem=problem if call.id else None))
        return planned

    def build_done(self, stop: StopKind, reason: str | None = None) -> Done:
        """Build the result from the totals so far."""
        return Done(
            stop=stop,
            reason=reason,
            text=self.text,
            turns=self.used.turns,
            tools=tuple(self.tools.uses),
            usage=self.used.usage,
            cached_partial=self.used.cached_partial,
            compactions=self.context.summaries,
            compaction_usage=self.context.used.usage if self.context.summaries == self.context.used.turns else None,
            model=self.model,
        )


def classify_truncation(answer: Answer) -> str:
    """Classify an answer that hit the output limit, for the record."""
    if answer.calls:
        return "tool_call_cut"
    return "text_cut" if answer.text else "empty_response"
