"""The runs of an agent suite: all call one provider, and each has a workspace of its own."""

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
"""The name of the one provider."""
VERIFIER_VARIABLES = ("PATH", "LANG", "LC_ALL")
"""What command verifiers get of this process's environment."""
UNKNOWN_VERIFIER_MS = 600_000
"""How long a verifier may take that does not say."""


@attrs.frozen(kw_only=True)
class SuiteKind:
    """Implements `orchestrator.engine.kind.RunKind`."""

    suite: Suite
    tasks: tuple[Task, ...]
    """Those of the suite that are run."""
    settings: Settings
    provider: Provider
    subject: Callable[[], Subject] = BuiltinAgent
    """Makes the agent, anew for every attempt."""
    sandbox: Sandbox | None = None
    """The sandbox of the settings, proven to work; None is none."""

    @property
    def nouns(self) -> KindNouns:
        """A suite's."""
        return NOUNS

    @property
    def providers(self) -> Mapping[str, PricedProvider]:
        """The one provider."""
        return {PROVIDER: PricedProvider(provider=self.provider, prices=self.settings.prices)}

    @property
    def content(self) -> Mapping[str, str]:
        """Of `suite.json` and the fixtures."""
        return self.suite.content

    @property
    def max_run_s(self) -> float:
        """No budget of a task and its verifiers' timeouts together are longer."""
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
        found: dict[str, Json] = {
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
            found["variants"] = settings.variants_to_json()
        return found

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
        """The provider's."""
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
