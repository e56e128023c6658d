"""Tool execution: runs the calls of one turn, each of which gets exactly one answer, however malformed it is."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Sequence

import attrs

from providers.agent.policy import check_permission
from providers.agent.tools import Tool, ToolContext, ToolFailed, find_argument_problems
from providers.base import Note, Policy, ToolAnswer, ToolCall, ToolSpec, ToolUse
from providers.system.paths import PathEscapes
from providers.system.process import EXHAUSTED_ERRNOS, ProcessNotStarted
from store.errors import EvalctlError
from store.events import Incident, ToolCompleted, ToolStarted

MAX_PARALLEL_READS = 4
"""Number of consecutive read-only calls that run in parallel."""
MODEL_OUTPUT_CHARS = 40_000
"""Characters of a tool's output that the model sees."""
RECORDED_OUTPUT_CHARS = 16 << 20
"""Characters of a tool's output that are recorded: at most 64 MiB in UTF-8."""
OUTPUT_TRUNCATION_NOTICE = "\n[tool output cut after {shown} of {all} characters]"

SENDABLE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Tool names that every endpoint accepts."""

HOST_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EIO})
"""Errors of the machine, not of the call: reported to the model and also as an incident."""


@attrs.frozen(kw_only=True)
class PlannedCall:
    """A call to answer. With a *problem* it is answered by that error and not run."""

    call: ToolCall
    problem: str | None = None


@attrs.define(kw_only=True)
class ToolRunner:
    """Runs tool calls under a policy and records each of them."""

    tools: Sequence[Tool]
    policy: Policy
    place: ToolContext
    note: Note
    specs: tuple[ToolSpec, ...]
    """The tools that the model sees."""
    uses: list[ToolUse] = attrs.field(factory=list[ToolUse], init=False)
    """All calls answered so far in order, including refused and failed ones."""

    async def answer_calls(self, calls: Sequence[PlannedCall]) -> list[ToolAnswer]:
        """Answer the calls in their order. Only consecutive read-only calls run in parallel."""
        answers: list[ToolAnswer] = []
        for batch in self._split_batches(calls):
            answers += await self._run_batch(batch)
        for planned, answer in zip(calls, answers, strict=True):
            call = planned.call
            arguments = call.raw if call.arguments is None else dict(call.arguments)
            self.uses.append(ToolUse(name=call.name, arguments=arguments, is_error=answer.is_error))
        return answers

    def _split_batches(self, calls: Sequence[PlannedCall]) -> Iterator[list[PlannedCall]]:
        batch: list[PlannedCall] = []
        for planned in calls:
            tool = self._find_tool(planned.call.name)
            reads = tool is not None and tool.effect == "read"
            if batch and (not reads or len(batch) == MAX_PARALLEL_READS):
                yield batch
                batch = []
            batch.append(planned)
            if not reads:
                yield batch
                batch = []
        if batch:
            yield batch

    async def _run_batch(self, batch: Sequence[PlannedCall]) -> list[ToolAnswer]:
        if len(batch) == 1:
            return [await self._run_call(batch[0])]
        import anyio  # noqa: PLC0415 - start-up: only running needs an event loop

        answers: dict[str, ToolAnswer] = {}
        failed: list[EvalctlError] = []

        async def run_one(planned: PlannedCall) -> None:
            try:
                answers[planned.call.id] = await self._run_call(planned)
            except EvalctlError as error:  # recording failed; a task group would hide which error it is
                failed.append(error)

        async with anyio.create_task_group() as calls:
            for planned in batch:
                calls.start_soon(run_one, planned)
        if failed:
            raise failed[0]
        return [answers[planned.call.id] for planned in batch]

    async def _run_call(self, planned: PlannedCall) -> ToolAnswer:
        import anyio  # noqa: PLC0415 - start-up: only running needs an event loop

        call = planned.call
        tool = self._find_tool(call.name)
        self.note(
            ToolStarted(
                id=call.id,
                name=call.name,
                arguments=call.raw if call.arguments is None else call.arguments,
                effect="unknown" if tool is None else tool.effect,
            )
        )
        begun = anyio.current_time()
        try:
            output, is_error = await self._execute_tool(planned, tool), False
        except (ToolFailed, PathEscapes, ProcessNotStarted) as error:
            output, is_error = str(error), True
        except UnicodeError:
            output, is_error = "the arguments hold a character that cannot be written as UTF-8", True
        except OSError as error:
            if error.errno in EXHAUSTED_ERRNOS:
                raise
            # The full text would name paths outside the workspace.
            output, is_error = error.strerror or "the system refused", True
            if error.errno in HOST_ERRNOS:
                name = errno.errorcode.get(error.errno, "") if error.errno is not None else ""
                self.note(Incident(name="tool_environment", detail={"tool": call.name, "error": name}))
        # A file name may contain bytes that are not text, and endpoints accept only text.
        output = output.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        ms = round((anyio.current_time() - begun) * 1000)
        self.note(
            ToolCompleted(
                id=call.id,
                name=call.name,
                is_error=is_error,
                output=truncate_output(output, RECORDED_OUTPUT_CHARS),
                ms=ms,
            )
        )
        return ToolAnswer(
            call_id=call.id,
            name=make_sendable(call).name,
            text=truncate_output(output, MODEL_OUTPUT_CHARS),
            is_error=is_error,
        )

    async def _execute_tool(self, planned: PlannedCall, tool: Tool | None) -> str:
        call = planned.call
        if planned.problem is not None:
            raise ToolFailed(planned.problem)
        if tool is None:
            known = ", ".join(spec.name for spec in self.specs)
            raise ToolFailed(f"there is no tool {call.name[:100]!r}; the tools are: {known}")
        refused = check_permission(tool, self.policy)
        if refused is not None:
            if refused.incident is not None:
                self.note(Incident(name=refused.incident, detail={"tool": tool.name, "effect": tool.effect}))
            raise ToolFailed(refused.message)
        if call.arguments is None:
            raise ToolFailed(f"the arguments are no JSON object: {call.problem or 'they cannot be read'}")
        problem = find_argument_problems(tool.spec.input_schema, call.arguments)
        if problem is not None:
            raise ToolFailed(f"the arguments do not fit {tool.name}: {problem}")
        if self.place.materialise is not None:
            self.place.materialise()
        return await tool.run(self.place, call.arguments)

    def _find_tool(self, name: str) -> Tool | None:
        return next((tool for tool in self.tools if tool.name == name), None)


def make_sendable(call: ToolCall) -> ToolCall:
    """The call in a form that every endpoint accepts.

    Some endpoints refuse a whole request because of an unusual tool name or invalid JSON in the arguments. The call's
    answer explains the problem to the model.
    """
    if SENDABLE_NAME.fullmatch(call.name) is None:
        call = attrs.evolve(call, name=re.sub(r"[^A-Za-z0-9_-]", "_", call.name[:64]) or "unnamed")
    return call if call.arguments is not None else attrs.evolve(call, arguments={}, raw="{}", problem=None)


def truncate_output(text: str, limit: int) -> str:
    """The first *limit* characters of *text*, with a notice if it is longer."""
    if len(text) <= limit:
        return text
    return text[:limit] + OUTPUT_TRUNCATION_NOTICE.format(shown=limit, all=len(text))
