"""The kind of run of an agent suite: all runs call one provider, and each has its own workspace."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from orchestrator.engine.kind import PlanRequest, PricedProvider, RunContext
from orchestrator.engine.nouns import KindNouns
from orchestrator.suite.execute import Executor
from orchestrator.suite.model import Suite, Task
from orchestrator.suite.nouns import NOUNS
from orchestrator.suite.plan import plan_sweep
from orchestrator.suite.settings import Settings
from providers.agent.loop import BuiltinAgent
from providers.base import Provider, Subject
from providers.system.sandbox import Sandbox
from store.events import Json
from store.rows import Claim, NewSweep

PROVIDER = "provider"
"""Name of the one provider among the engine's gates."""
VERIFIER_VARIABLES = ("PATH", "LANG", "LC_ALL")
"""Variables of this process's environment that command verifiers get."""
UNKNOWN_VERIFIER_MS = 600_000
"""Assumed timeout of a verifier that states none, in milliseconds."""


@attrs.frozen(kw_only=True)
class SuiteKind:
    """The runs of an agent suite; implements `orchestrator.engine.kind.RunKind`."""

    suite: Suite
    tasks: tuple[Task, ...]
    """Selected tasks of the suite."""
    settings: Settings
    provider: Provider
    subject: Callable[[], Subject] = BuiltinAgent
    """Makes a new agent for each attempt."""
    sandbox: Sandbox | None = None
    """The sandbox that the settings name, proven to work; None without a sandbox."""

    @property
    def nouns(self) -> KindNouns:
        """The nouns of an agent suite."""
        return NOUNS

    @property
    def providers(self) -> Mapping[str, PricedProvider]:
        """The one provider, with the settings' prices."""
        return {PROVIDER: PricedProvider(provider=self.provider, prices=self.settings.prices)}

    @property
    def content(self) -> Mapping[str, str]:
        """Hashes of `suite.json` and of the fixtures' files."""
        return self.suite.content

    @property
    def max_run_s(self) -> float:
        """Longest duration of one run in seconds: a task's wall-time budget plus the timeouts of its verifiers."""
        longest_ms = max(
            (
                task.budget.max_wall_ms
                + sum(getattr(verifier, "timeout_ms", UNKNOWN_VERIFIER_MS) for verifier in task.verifiers)
                for task in self.tasks
            ),
            default=0,
        )
        return longest_ms / 1000

    def describe_conditions(self) -> dict[str, Json]:
        """See `orchestrator.engine.kind.RunKind`."""
        suite, settings = self.suite, self.settings
        conditions: dict[str, Json] = {
            "suite": {
                "id": suite.suite_id,
                "version": suite.suite_version,
                "root": str(suite.root),
                "bundled": suite.bundled,
                "content": suite.content,
            },
            "sandbox": settings.sandbox,
        }
        if settings.variants:
            conditions["variants"] = settings.variants_to_json()
        return conditions

    def plan_sweep(self, request: PlanRequest) -> NewSweep:
        """See `orchestrator.engine.kind.RunKind`."""
        return plan_sweep(
            self.suite,
            self.tasks,
            self.settings,
            name=request.name,
            command=request.command,
            planned_at=request.planned_at,
            conditions=dict(request.conditions),
            purpose=request.purpose,
        )

    def account_of(self, claim: Claim) -> str:  # noqa: ARG002 - all runs have the same
        """Return the provider's account."""
        return self.provider.account

    def make_executor(self, context: RunContext) -> Executor:
        """See `orchestrator.engine.kind.RunKind`."""
        settings, environment = self.settings, context.world.environment
        return Executor(
            suite=self.suite,
            settings=settings,
            context=context,
            gate=context.gates[PROVIDER],
            subject=self.subject,
            workspaces=Path(tempfile.mkdtemp(prefix="evalctl-kept-")) if settings.keep else context.scratch,
            environment={name: environment[name] for name in VERIFIER_VARIABLES if name in environment},
            sandbox=self.sandbox,
        )
