"""A task of a bundled suite, worked on by a scripted model under given limits, and judged."""

from __future__ import annotations

import os
from pathlib import Path

import attrs

from orchestrator.suite.catalog import find_suite
from orchestrator.suite.model import Suite, Task
from orchestrator.suite.stress.suites import LONG_CONTEXT, LOWERED_CONTEXT_CHARS, STRESS
from orchestrator.workspaces.fixture import Fixtures, open_workspace
from providers.agent.loop import BuiltinAgent
from providers.base import AgentSettings, Answer, Ask, Assignment, Origin, Policy, Request, ToolUse
from providers.scripted.script import read_scripts
from providers.scripted.scripted import ScriptedProvider
from providers.system.tree import list_changes
from store.events import Event, Incident, ToolCompleted
from store.rows import FileChange
from verifiers.aggregate import run_verifiers
from verifiers.base import Evidence

LONG = find_suite(LONG_CONTEXT, None)
STRESSED = find_suite(STRESS, None)
LOWERED = AgentSettings(max_context_chars=LOWERED_CONTEXT_CHARS)
MARKER = "test-00000000/1/1"


@attrs.frozen(kw_only=True)
class Played:
    verdicts: dict[str, str]
    compactions: int
    outputs: tuple[str, ...]
    errors: int

    @property
    def not_passed(self) -> list[str]:
        return [name for name, verdict in self.verdicts.items() if verdict != "pass"]


def task_of(suite: Suite, name: str) -> Task:
    return next(task for task in suite.tasks if task.id == name)


def scripted(suite: Suite) -> Ask:
    return asking(ScriptedProvider(read_scripts(suite.root)))


def asking(provider: ScriptedProvider) -> Ask:
    async def ask(request: Request) -> Answer:
        return await provider.answer(request, lambda _: None)

    return ask


async def play(suite: Suite, task: Task, ask: Ask, tmp_path: Path, settings: AgentSettings = AgentSettings()) -> Played:  # noqa: B008 - frozen
    events: list[Event] = []
    fixture = await Fixtures().read_cached(suite.root / task.fixture)
    async with open_workspace(fixture, git=False, keep=False, parent=tmp_path, name=task.id) as made:
        assignment = Assignment(
            origin=Origin(suite_id=suite.suite_id, case_id=task.id, repetition=0),
            prompt=task.prompt,
            workspace=made.path,
            model="scripted",
            policy=Policy(mode=task.policy.mode, granted=frozenset({"read", *task.policy.allow})),
            settings=settings,
            max_turns=task.budget.max_turns,
            max_tokens=task.budget.max_tokens,
            max_tool_calls=task.budget.max_tool_calls,
            marker=MARKER,
        )
        done = await BuiltinAgent().work(assignment, ask, events.append)
        assert done.stop == "completed"
        return Played(
            verdicts=await judged(suite, task, made.path, list_changes(made.before, made.path), done.tools),
            compactions=sum(isinstance(event, Incident) and event.name == "compaction" for event in events),
            outputs=tuple(event.output for event in events if isinstance(event, ToolCompleted)),
            errors=sum(use.is_error for use in done.tools),
        )


async def judged(
    suite: Suite, task: Task, place: Path, changed: tuple[FileChange, ...] = (), tools: tuple[ToolUse, ...] = ()
) -> dict[str, str]:
    evidence = Evidence(
        workspace=place,
        fixture=suite.root / task.fixture,
        changes=tuple(changed),
        tools=tuple(tools),
        marker=MARKER,
        environment={"PATH": os.environ["PATH"]},  # noqa: TID251 - a test is its own edge
    )
    return {judgement.verifier: judgement.verdict for judgement in await run_verifiers(task.verifiers, evidence)}
