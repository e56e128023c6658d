"""Execution of a suite's runs: workspace, subject, verifiers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from orchestrator.engine.attempt import Attempt
from orchestrator.engine.ending import AttemptResult
from orchestrator.engine.gate.gate import Gate, GateOfRun
from orchestrator.engine.gate.retry import RetryPolicy
from orchestrator.engine.kind import RunContext
from orchestrator.suite.effects import make_policy
from orchestrator.suite.model import Suite, Task
from orchestrator.suite.settings import Settings
from orchestrator.workspaces.fixture import Fixtures, Workspace, open_workspace
from providers.base import Assignment, Done, Origin, Subject
from providers.system.sandbox import Sandbox
from providers.system.tree import list_changes
from providers.usage import Usage
from store.events import Incident, Json, WorkEnded
from store.rows import Claim, Ending, FileChange
from verifiers.aggregate import are_read_only, combine_verdicts, run_verifiers
from verifiers.base import Evidence

JUDGED = ("pass", "fail", "budget_exceeded")
"""Outcomes that are a result of the subject."""


MAX_STRAYS = 20
"""Largest number of paths that the incident `outside_workspace` lists."""


@attrs.define(kw_only=True)
class AgentWork:
    """Work of a subject on a task in one attempt."""

    attempt: Attempt
    task: Task
    subject: Subject
    done: Done | None = None
    """Result of the work; None until the subject has ended."""

    def find_done(self, reason: str) -> Done | None:
        """Return the work, even if it was cut off for *reason*; None if it never began."""
        if self.done is None and self.attempt.started_at is not None:
            return self.subject.so_far(reason)
        return self.done


@attrs.frozen(kw_only=True)
class Executor:
    """Executes claimed runs of one sweep."""

    suite: Suite
    settings: Settings
    context: RunContext
    gate: Gate
    subject: Callable[[], Subject]
    """Makes the subject of one attempt."""
    workspaces: Path
    environment: Mapping[str, str]
    """Environment of command verifiers."""
    sandbox: Sandbox | None
    fixtures: Fixtures = attrs.field(factory=Fixtures)
    tasks: Mapping[str, Task] = attrs.field(init=False)

    @tasks.default
    def _tasks_by_id(self) -> dict[str, Task]:
        return {task.id: task for task in self.suite.tasks}

    async def __call__(self, claim: Claim) -> None:
        """Make one attempt at the run and record its end, even when it is cancelled."""
        task = self.tasks[claim.case_id]
        attempt = self.context.open_attempt(claim, task.budget.max_wall_ms / 1000)
        work = AgentWork(attempt=attempt, task=task, subject=self.subject())
        await attempt.run_and_record(lambda: self._try_task(work), lambda result: self._build_ending(work, result))

    async def _try_task(self, work: AgentWork) -> AttemptResult:
        attempt, task, keep = work.attempt, work.task, self.settings.keep
        claim = attempt.claim
        fixture = await self.fixtures.read_cached(self.suite.root / task.fixture)
        async with open_workspace(
            fixture,
            git=task.fixture_git,
            keep=keep,
            parent=self.workspaces,
            name=f"run-{claim.position}-{claim.number}",
            lazy=True,
            environment=self.environment,
            marker=attempt.key,
        ) as workspace:
            if keep:
                self.context.say(f"{self.context.sweep}/{claim.position}: kept {workspace.path}")
            assignment = self._build_assignment(work, workspace)
            ask = GateOfRun(self.gate, attempt.requests, self._make_retry_policy(claim))
            with attempt.work_time():
                work.done = await work.subject.work(assignment, ask, attempt.record_event)
            if workspace.made and not workspace.path.is_dir():
                return _build_loss(workspace)
            changed = list_changes(workspace.before, workspace.path) if workspace.made else ()
            if strays := await workspace.remove_strays():
                attempt.record_event(Incident(name="outside_workspace", detail={"paths": list(strays[:MAX_STRAYS])}))
            if attempt.watch.expired:
                work.done = work.subject.so_far("maxWallMs")
            done = work.done
            attempt.record_event(WorkEnded(stop=done.stop, reason=done.reason, text=done.text))
            if done.stop == "budget":
                return AttemptResult(outcome="budget_exceeded", reason=done.reason, composite=0.0, changes=changed)
            if done.stop == "failed":
                return AttemptResult(outcome="fail", reason=done.reason, composite=0.0, changes=changed)
            return await self._judge_work(work, workspace, done, changed)

    async def _judge_work(
        self, work: AgentWork, workspace: Workspace, done: Done, changed: tuple[FileChange, ...]
    ) -> AttemptResult:
        verifiers = work.task.verifiers
        if not are_read_only(verifiers):
            workspace.copy_fixture()
        verdicts = await run_verifiers(
            verifiers,
            Evidence(
                workspace=workspace.path if workspace.made else workspace.fixture.root,
                fixture=workspace.fixture.root,
                changes=changed,
                tools=done.tools,
                marker=work.attempt.key,
                environment=self.environment,
                sandbox=self._make_sandbox(work.task),
            ),
        )
        if workspace.made and not workspace.path.is_dir():
            return _build_loss(workspace)
        verdict, composite = combine_verdicts(verdicts)
        return AttemptResult(
            outcome=verdict,
            reason="verifier" if verdict == "error" else None,
            composite=composite,
            verdicts=verdicts,
            changes=changed,
        )

    def _build_assignment(self, work: AgentWork, workspace: Workspace) -> Assignment:
        claim, task, settings = work.attempt.claim, work.task, self.settings
        agent = settings.select_agent(task.agent, claim.variant)
        return Assignment(
            origin=Origin(
                suite_id=self.suite.suite_id, case_id=task.id, repetition=claim.repetition, variant=claim.variant
            ),
            prompt=task.prompt,
            workspace=workspace.path,
            model=settings.model,
            policy=make_policy(task, settings.grants),
            settings=agent,
            max_turns=min(task.budget.max_turns, agent.max_turns),
            max_tokens=task.budget.max_tokens,
            max_tool_calls=task.budget.max_tool_calls,
            context_window=settings.context_window,
            allow_private=settings.fetch_private,
            sandbox=self._make_sandbox(task),
            marker=work.attempt.key,
            home=workspace.home_path,
            materialise=workspace.copy_fixture,
        )

    def _make_retry_policy(self, claim: Claim) -> RetryPolicy:
        """Return the sweep's retry policy with the agent's own count of first-token retries."""
        retries = self.settings.select_agent(None, claim.variant).first_token_retries
        return attrs.evolve(self.gate.policy, first_token_retries=retries)

    def _make_sandbox(self, task: Task) -> Sandbox | None:
        """Return the sandbox, with a network only if the task's policy grants `external`."""
        if self.sandbox is None:
            return None
        return attrs.evolve(self.sandbox, network="external" in make_policy(task, self.settings.grants).granted)

    def _build_ending(self, work: AgentWork, result: AttemptResult) -> Ending:
        done, tally = work.find_done(result.reason or ""), work.attempt.requests.work
        measured = work.attempt.take_measurements(
            (done.usage if done is not None else None) or Usage(),
            cost_known=tally.calls > 0 and not tally.unpriced,
            turns=done.turns if done is not None else None,
            tool_calls=len(done.tools) if done is not None else None,
        )
        return work.attempt.build_ending(
            result, judged=result.outcome in JUDGED, measured=measured, detail=_describe_work(done)
        )


def _describe_work(done: Done | None) -> dict[str, Json]:
    """Describe the work beyond its measurements. Tokens of compactions appear only if the provider reported all."""
    detail: dict[str, Json] = {}
    if done is not None and done.cached_partial:
        detail["cachedPartial"] = True
    if done is not None and done.compactions:
        used = done.compaction_usage or Usage()
        numbers = {"calls": done.compactions, "input": used.input, "output": used.output}
        detail["compaction"] = {name: number for name, number in numbers.items() if number is not None}
    return detail


def _build_loss(workspace: Workspace) -> AttemptResult:
    """Build the result of an attempt whose workspace was removed: nothing is left to judge."""
    return AttemptResult(
        outcome="error", reason="harness", message=f"the workspace {workspace.path} was removed during the run"
    )
