"""The runs of an agent suite: one provider is asked, and each run has a workspace of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import attrs

from orchestrator.engine.kind import Asked, Planning, Room
from orchestrator.engine.nouns import KindNouns
from orchestrator.suite.execute import Executor
from orchestrator.suite.model import Suite, Task
from orchestrator.suite.nouns import NOUNS
from orchestrator.suite.plan import plan
from orchestrator.suite.settings import Settings
from providers.agent.loop import BuiltinAgent
from providers.base import Provider, Subject
from providers.prices.table import Prices
from providers.system.sandbox import Sandbox
from store.events import Json
from store.rows import Claim, NewSweep

PROVIDER = "provider"
"""The one whom all runs ask."""
VERIFIER_VARIABLES = ("PATH", "LANG", "LC_ALL")
"""What command verifiers get of this process's environment."""
UNKNOWN_VERIFIER_MS = 600_000
"""How long a verifier may take that does not say."""


@attrs.frozen(kw_only=True)
class AgentJob:
    """Implements `orchestrator.engine.kind.Job`."""

    suite: Suite
    tasks: tuple[Task, ...]
    """Those of the suite that are run."""
    provider: Provider
    prices: Prices = attrs.field(factory=dict)
    subject: Callable[[], Subject] = BuiltinAgent
    """Who works: made anew for every attempt."""
    sandbox: Sandbox | None = None
    """What the settings ask for, proven to work; None is none."""

    @property
    def nouns(self) -> KindNouns:
        """A suite's."""
        return NOUNS

    @property
    def asked(self) -> Mapping[str, Asked]:
        """The provider."""
        return {PROVIDER: Asked(provider=self.provider, prices=self.prices)}

    @property
    def content(self) -> Mapping[str, str]:
        """Of `suite.json` and the fixtures."""
        return self.suite.content

    @property
    def longest_s(self) -> float:
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

    def conditions(self, settings: Settings) -> dict[str, Json]:
        """See `orchestrator.engine.kind.Job`."""
        suite = self.suite
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

    def plan(self, planning: Planning) -> NewSweep:
        """See `orchestrator.engine.kind.Job`."""
        return plan(
            self.suite,
            self.tasks,
            planning.settings,
            name=planning.name,
            command=planning.command,
            planned_at=planning.planned_at,
            conditions=dict(planning.conditions),
            purpose=planning.purpose,
        )

    def account(self, claim: Claim) -> str:  # noqa: ARG002 - all runs have the same
        """The provider's."""
        return self.provider.account

    def executor(self, room: Room) -> Executor:
        """See `orchestrator.engine.kind.Job`."""
        settings, environment = room.settings, room.world.environment
        return Executor(
            suite=self.suite,
            settings=settings,
            room=room,
            gate=room.gates[PROVIDER],
            subject=self.subject,
            workspaces=Path(tempfile.mkdtemp(prefix="evalctl-kept-")) if settings.keep else room.scratch,
            environment={name: environment[name] for name in VERIFIER_VARIABLES if name in environment},
            sandbox=self.sandbox,
        )
