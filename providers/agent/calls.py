"""Running the calls of one turn: each gets exactly one answer, whatever is wrong with it."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Sequence

import attrs

from providers.agent.policy import refusal
from providers.agent.tools import Place, Tool, ToolFailed, misfit
from providers.base import Note, Policy, ToolAnswer, ToolCall, ToolSpec, ToolUse
from providers.system.paths import PathEscapes
from providers.system.process import ProcessNotStarted
from store.errors import EvalctlError
from store.events import Incident, ToolCompleted, ToolStarted

SIDE_BY_SIDE = 4
"""So many consecutive calls that only read run at once."""
SHOWN_CHARS = 40_000
"""Of a tool's output, for the model."""
KEPT_CHARS = 16 << 20
"""Of a tool's output, for the record: at most 64 MiB in UTF-8."""
CUT = "\n[tool output cut after {shown} of {all} characters]"

SAYABLE = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Names of tools that every endpoint takes."""

HOST_TROUBLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO})
"""Errors of the machine rather than of the call: the model is told, and so is the reader of the report."""


@attrs.frozen(kw_only=True)
class Planned:
    """A call to answer; with a *problem*, by an error, without running it."""

    call: ToolCall
    problem: str | None = None


@attrs.define(kw_only=True)
class ToolRunner:
    """Answers tool calls under a policy and records each."""

    tools: Sequence[Tool]
    policy: Policy
    place: Place
    note: Note
    specs: tuple[ToolSpec, ...]
    """The tools the model is told about."""
    uses: list[ToolUse] = attrs.field(factory=list[ToolUse], init=False)
    """Every call answered so far, refused and failed ones too, in the order of the calls."""

    async def answer(self, calls: Sequence[Planned]) -> list[ToolAnswer]:
        """Answer the calls, in their order. Those that only read may overtake each other; nothing else does."""
        answers: list[ToolAnswer] = []
        for batch in self._batches(calls):
            answers += await self._together(batch)
        for planned, answer in zip(calls, answers, strict=True):
            call = planned.call
            arguments = call.raw if call.arguments is None else dict(call.arguments)
            self.uses.append(ToolUse(name=call.name, arguments=arguments, is_error=answer.is_error))
        return answers

    def _batches(self, calls: Sequence[Planned]) -> Iterator[list[Planned]]:
        batch: list[Planned] = []
        for planned in calls:
            tool = self._tool(planned.call.name)
            reads = tool is not None and tool.effect == "read"
            if batch and (not reads or len(batch) == SIDE_BY_SIDE):
                yield batch
                batch = []
            batch.append(planned)
            if not reads:
                yield batch
                batch = []
        if batch:
            yield batch

    async def _together(self, batch: Sequence[Planned]) -> list[ToolAnswer]:
        if len(batch) == 1:
            return [await self._one(batch[0])]
        import anyio

        answers: dict[str, ToolAnswer] = {}
        failed: list[EvalctlError] = []

        async def one(planned: Planned) -> None:
            try:
                answers[planned.call.id] = await self._one(planned)
            except EvalctlError as error:  # the record has failed; a task group would hide which error it is
                failed.append(error)

        async with anyio.create_task_group() as calls:
            for planned in batch:
                calls.start_soon(one, planned)
        if failed:
            raise failed[0]
        return [answers[planned.call.id] for planned in batch]

    async def _one(self, planned: Planned) -> ToolAnswer:
        import anyio

        call = planned.call
        tool = self._tool(call.name)
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
            output, is_error = await self._run(planned, tool), False
        except (ToolFailed, PathEscapes, ProcessNotStarted) as error:
            output, is_error = str(error), True
        except UnicodeError:
            output, is_error = "the arguments hold a character that cannot be written as UTF-8", True
        except OSError as error:
            # Not its full text, which names places outside the workspace.
            output, is_error = error.strerror or "the system refused", True
            if error.errno in HOST_TROUBLE:
                name = errno.errorcode.get(error.errno, "") if error.errno is not None else ""
                self.note(Incident(name="tool_environment", detail={"tool": call.name, "error": name}))
        # A file name may hold bytes that are no text; an endpoint takes only text.
        output = output.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        ms = round((anyio.current_time() - begun) * 1000)
        self.note(ToolCompleted(id=call.id, name=call.name, is_error=is_error, output=cut(output, KEPT_CHARS), ms=ms))
        return ToolAnswer(call_id=call.id, name=sayable(call).name, text=cut(output, SHOWN_CHARS), is_error=is_error)

    async def _run(self, planned: Planned, tool: Tool | None) -> str:
        call = planned.call
        if planned.problem is not None:
            raise ToolFailed(planned.problem)
        if tool is None:
            known = ", ".join(spec.name for spec in self.specs)
            raise ToolFailed(f"there is no tool {call.name[:100]!r}; the tools are: {known}")
        refused = refusal(tool, self.policy)
        if refused is not None:
            if refused.incident is not None:
                self.note(Incident(name=refused.incident, detail={"tool": tool.name, "effect": tool.effect}))
            raise ToolFailed(refused.message)
        if call.arguments is None:
            raise ToolFailed(f"the arguments are no JSON object: {call.problem or 'they cannot be read'}")
        problem = misfit(tool.spec.input_schema, call.arguments)
        if problem is not None:
            raise ToolFailed(f"the arguments do not fit {tool.name}: {problem}")
        if self.place.materialise is not None:
            self.place.materialise()
        return await tool.run(self.place, call.arguments)

    def _tool(self, name: str) -> Tool | None:
        return next((tool for tool in self.tools if tool.name == name), None)


def sayable(call: ToolCall) -> ToolCall:
    """The call as it can go back to an endpoint, some of which refuse a whole request over an odd name or arguments
    that are no JSON. What is wrong with it stands in its answer.
    """
    if SAYABLE.fullmatch(call.name) is None:
        call = attrs.evolve(call, name=re.sub(r"[^A-Za-z0-9_-]", "_", call.name[:64]) or "unnamed")
    return call if call.arguments is not None else attrs.evolve(call, arguments={}, raw="{}", problem=None)


def cut(text: str, limit: int) -> str:
    """At most *limit* characters, and where some are missing a line that says so."""
    if len(text) <= limit:
        return text
    return text[:limit] + CUT.format(shown=limit, all=len(text))
