"""One attempt at one run of a suite: workspace, subject, verifiers, and what it all comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from orchestrator.engine.control.control import Control
from orchestrator.engine.ending import Finding, concluded, detail_of, source_of
from orchestrator.engine.gate.gate import Gate, GateOfRun
from orchestrator.engine.gate.retry import RetryPolicy
from orchestrator.engine.gate.stopwatch import Stopwatch
from orchestrator.engine.ports import AttemptLog
from orchestrator.engine.resumption import AGAIN
from orchestrator.suite.effects import policy_for
from orchestrator.suite.model import Suite, Task
from orchestrator.suite.settings import Settings
from orchestrator.workspaces.fixture import Fixtures, Workspace, workspace
from providers.base import Assignment, Done, Origin, Subject
from providers.system.sandbox import Sandbox
from providers.system.tree import changes
from store.events import Event, Incident, Json, WorkEnded
from store.rows import Claim, Ending, FileChange
from verifiers.aggregate import all_only_look, judge, verdict_of
from verifiers.base import Evidence


@attrs.define(kw_only=True)
class Attempt:
    """What is known of an attempt while it runs."""

    claim: Claim
    task: Task
    log: AttemptLog
    watch: Stopwatch
    ask: GateOfRun
    subject: Subject
    started_at: int | None = None
    done: Done | None = None
    incidents: Counter[str] = attrs.field(factory=Counter[str])

    def note(self, event: Event) -> None:
        """Record an event; incidents are counted for the report."""
        if isinstance(event, Incident):
            self.incidents[event.name] += 1
        self.ask.stir()
        self.log.note(event)


class Executor:
    """Executes claimed runs of one sweep."""

    def __init__(
        self,
        *,
        suite: Suite,
        settings: Settings,
        gate: Gate,
        subject: Callable[[], Subject],
        fixtures: Fixtures,
        workspaces: Path,
        control: Control,
        environment: Mapping[str, str],
        wall: Callable[[], int],
        sandbox: Sandbox | None = None,
        kept: Callable[[Claim, Path], None],
    ) -> None:
        self._tasks = {task.id: task for task in suite.tasks}
        self._fixture_roots = {task.id: suite.root / task.fixture for task in suite.tasks}
        self._policies = {task.id: policy_for(task, settings.grants) for task in suite.tasks}
        self._suite = suite
        self._settings = settings
        self._gate = gate
        self._ledger = gate.ledger
        self._subject = subject
        self._fixtures = fixtures
        self._workspaces = workspaces
        self._control = control
        self._environment = environment
        self._sandbox = sandbox
        self._wall = wall
        self._kept = kept

    async def __call__(self, claim: Claim) -> None:
        """Try the run once and record how that ended, also when it is cancelled."""
        task = self._tasks[claim.case_id]
        log = self._ledger.log(claim)
        watch = Stopwatch(task.budget.max_wall_ms / 1000)
        attempt = Attempt(
            claim=claim,
            task=task,
            log=log,
            watch=watch,
            ask=GateOfRun(self._gate, claim, log, watch, self._policy_of(claim)),
            subject=self._subject(),
        )
        await concluded(
            lambda: self._try(attempt),
            attempt.ask.bound,
            self._control,
            lambda finding: self._ledger.finish(self._ending(attempt, finding)),
        )

    async def _try(self, attempt: Attempt) -> Finding:
        claim, task = attempt.claim, attempt.task
        fixture = await self._fixtures.fixture(self._fixture_roots[task.id])
        async with workspace(
            fixture,
            git=task.fixture_git,
            keep=self._settings.keep,
            parent=self._workspaces,
            name=f"{claim.position}-{claim.number}",
            lazy=True,
            environment=self._environment,
            marker=self._marker(claim),
        ) as made:
            if self._settings.keep:
                self._kept(claim, made.path)
            assignment = self._assignment(attempt, made)
            attempt.started_at = self._wall()
            with attempt.watch.running():
                attempt.done = await attempt.subject.work(assignment, attempt.ask, attempt.note)
            changed = changes(made.before, made.path) if made.made else ()
            if attempt.watch.expired:
                attempt.done = attempt.subject.so_far("maxWallMs")
            done = attempt.done
            attempt.note(WorkEnded(stop=done.stop, reason=done.reason, text=done.text))
            if done.stop == "budget":
                return Finding(outcome="budget_exceeded", reason=done.reason, composite=0.0, changes=changed)
            if done.stop == "failed":
                return Finding(outcome="fail", reason=done.reason, composite=0.0, changes=changed)
            return await self._judge(attempt, made, done, changed)

    async def _judge(self, attempt: Attempt, made: Workspace, done: Done, changed: tuple[FileChange, ...]) -> Finding:
        verifiers, environment = attempt.task.verifiers, self._environment
        if not all_only_look(verifiers):
            made.materialise()
            environment = {**environment, "HOME": str(made.home), "TMPDIR": str(made.home)}
        verdicts = await judge(
            verifiers,
            Evidence(
                workspace=made.path if made.made else made.fixture.root,
                fixture=made.fixture.root,
                changes=changed,
                tools=done.tools,
                marker=self._marker(attempt.claim),
                environment=environment,
                sandbox=self._confinement(attempt.task),
            ),
        )
        verdict, composite = verdict_of(verdicts)
        return Finding(
            outcome=verdict,
            reason="verifier" if verdict == "error" else None,
            composite=composite,
            verdicts=verdicts,
            changes=changed,
        )

    def _assignment(self, attempt: Attempt, made: Workspace) -> Assignment:
        claim, task, settings = attempt.claim, attempt.task, self._settings
        agent = settings.agent_for(task.agent, claim.variant)
        return Assignment(
            origin=Origin(
                suite_id=self._suite.suite_id,
                case_id=task.id,
                repetition=claim.repetition,
                variant=claim.variant,
            ),
            prompt=task.prompt,
            workspace=made.path,
            model=settings.model,
            policy=self._policies[task.id],
            settings=agent,
            max_turns=min(task.budget.max_turns, agent.max_turns),
            max_tokens=task.budget.max_tokens,
            max_tool_calls=task.budget.max_tool_calls,
            context_window=settings.context_window,
            allow_private=settings.fetch_private,
            sandbox=self._confinement(task),
            marker=self._marker(claim),
            home=made.beside,
            materialise=made.materialise,
        )

    def _policy_of(self, claim: Claim) -> RetryPolicy:
        """The sweep's retry policy; how often a silent endpoint is asked again is measured, so a variant's own."""
        policy = self._gate.policy
        if not claim.variant:
            return policy
        retries = self._settings.agent_for(None, claim.variant).first_token_retries
        return attrs.evolve(policy, first_token_retries=retries)

    def _confinement(self, task: Task) -> Sandbox | None:
        """The sandbox with a network only where the task's policy grants `external`."""
        if self._sandbox is None:
            return None
        return attrs.evolve(self._sandbox, network="external" in self._policies[task.id].granted)

    def _marker(self, claim: Claim) -> str:
        return f"{self._gate.sweep}/{claim.position}/{claim.number}"

    def _ending(self, attempt: Attempt, finding: Finding) -> Ending:
        tally, watch = attempt.ask.tally, attempt.watch
        done = attempt.done
        if done is None and attempt.started_at is not None:
            done = attempt.subject.so_far(finding.reason or "")
        usage = done.usage if done is not None else None
        detail = detail_of(finding, tally, attempt.incidents + tally.incidents)
        if finding.divergence is not None:
            detail["divergence"] = finding.divergence.to_json()
        if done is not None and done.cached_partial:
            detail["cachedPartial"] = True
        if done is not None and done.compactions:
            detail["compaction"] = _compaction(done)
        started = attempt.started_at is not None
        return Ending(
            claim=attempt.claim,
            outcome=finding.outcome,
            reason=finding.reason,
            judged=finding.outcome in ("pass", "fail", "budget_exceeded"),
            again=finding.reason in AGAIN and finding.outcome in ("error", "skipped"),
            composite=finding.composite,
            started_at=attempt.started_at,
            ended_at=self._wall(),
            wall_ms=round(watch.worked_s * 1000) if started else None,
            waited_ms=round(watch.waited_s * 1000) if started else None,
            turns=done.turns if done is not None else None,
            tool_calls=len(done.tools) if done is not None else None,
            calls=tally.calls,
            input_tokens=usage.input if usage else None,
            output_tokens=usage.output if usage else None,
            cached_tokens=usage.cached if usage else None,
            cache_write_tokens=usage.cache_write if usage else None,
            reasoning_tokens=usage.reasoning if usage else None,
            cost_nusd=tally.nusd if tally.calls and not tally.unpriced else None,
            cost_source=source_of(tally),
            model_resolved=tally.model,
            detail=detail,
            verdicts=finding.verdicts,
            changes=finding.changes,
        )


def _compaction(done: Done) -> dict[str, Json]:
    """What summaries of the transcript took, which is in no figure of the work; tokens only where all were reported."""
    used = done.compaction_usage
    found = {
        "calls": done.compactions,
        "input": used.input if used is not None else None,
        "output": used.output if used is not None else None,
    }
    return {name: number for name, number in found.items() if number is not None}
