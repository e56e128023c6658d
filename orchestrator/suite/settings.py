"""Settings of a suite's sweep: resolved once at the edge, stored with the sweep, read back by `resume`.

Nothing below the command line reads flags, files or the environment to learn a setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from orchestrator.engine.kind import Terms, known_values
from orchestrator.suite.config import Config, with_agent, with_values
from orchestrator.suite.effects import Grants
from orchestrator.suite.variant import Variant
from providers.base import AgentSettings
from store.events import Json

if TYPE_CHECKING:
    from providers.system.sandbox import SandboxKind


STORED_FIELDS = (
    *("suite", "tasks", "k", "seed", "mode", "cassette_dir", "replay_of", "played", "provider", "model", "base_url"),
    *("api_key_env", "context_window", "fetch_private", "agent", "agents", "config_hash", "variants", "grants"),
    *("caps", "prices", "concurrency", "rpm", "tpm", "max_wall_s", "max_wait_s", "max_stall_s", "input_rate"),
    *("output_rate", "sandbox", "keep", "out"),
)
"""Every field in the order in which it is stored: the same settings give the same bytes in every version."""


@attrs.frozen(kw_only=True)
class Settings(Terms):
    """Settings of a suite's sweep. Flags beat the project's file, which beats the user's file, which beats the
    defaults.
    """

    suite: str
    tasks: tuple[str, ...] = ()
    """Chosen task ids; empty means all."""
    cassette_dir: str | None = None
    """The directory of a replay's recordings; None is the suite's own."""
    replay_of: str | None = None
    """The stored sweep that a replay repeats; None where it plays cassettes."""
    played: Mapping[str, str] = attrs.field(factory=dict)
    """The check of each task's cassette that a replay plays: `resume` goes on with the same ones."""
    provider: str
    model: str
    base_url: str | None = None
    api_key_env: str | None = None
    """The name of the variable that holds the credential; never its value."""
    context_window: int | None = None
    """Tokens the model takes in all, where that is known."""
    fetch_private: bool = False
    """Whether `fetch_url` may reach this machine and private networks."""
    agent: AgentSettings
    agents: Mapping[str, str] = attrs.field(factory=dict)
    """Instructions of the agents that files define, by name; a task's `agent` names one of them."""
    config_hash: str
    variants: tuple[Variant, ...] = ()
    """The compared configurations, the baseline first; none in a sweep of one configuration."""
    grants: Grants
    input_rate: str | None = None
    output_rate: str | None = None
    """USD per million tokens as decimal text: both or neither; only for the report's estimate."""
    sandbox: SandboxKind = "none"
    """Confines programs of the agent and of the suite."""

    def agent_for(self, name: str | None, variant: str = "") -> AgentSettings:
        """The measured configuration under a variant, with a task's agent active.

        Raises:
            UsageError: no agent of that name is defined.
        """
        agent = self._of_variant(variant) if variant else self.agent
        if name is None or name == agent.agent:
            return agent
        return with_agent(agent, name, self.agents, where="a task's agent")

    def variant_ids(self) -> tuple[str, ...]:
        """The variants' ids; the empty one alone where nothing is compared."""
        return tuple(variant.id for variant in self.variants) or ("",)

    def variants_to_json(self) -> dict[str, Json]:
        """What each variant comes to, for readers of the record; `from_json` does not need it."""
        return {variant.id: {"agent": _agent_to_json(self.agent_for(None, variant.id))} for variant in self.variants}

    def _of_variant(self, wanted: str) -> AgentSettings:
        overrides = next(variant.overrides for variant in self.variants if variant.id == wanted)
        config = Config(agent=self.agent, definitions=self.agents)
        return with_values(config, overrides, f"variant {wanted}").agent

    def to_json(self) -> dict[str, Json]:
        """Encode the settings as they are stored in the sweep's conditions, keys in `STORED`'s order."""
        values = super().to_json()
        values["grants"]["effects"] = sorted(self.grants.effects)
        values["agent"] = _agent_to_json(self.agent)
        values["tasks"] = list(self.tasks)
        values["agents"] = dict(self.agents)
        values["variants"] = [{"id": one.id, "overrides": dict(one.overrides)} for one in self.variants]
        return {name: values[name] for name in STORED_FIELDS}

    @classmethod
    def read_values(cls, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Read the stored values of known fields, decoded."""
        grants = known_values(Grants, stored["grants"])
        agent = known_values(AgentSettings, stored["agent"])
        agent["native_tools"] = tuple(agent.get("native_tools", ()))
        grants["effects"] = frozenset(grants["effects"])
        return super().read_values(stored) | {
            "tasks": tuple(stored["tasks"]),
            "agent": AgentSettings(**agent),
            "grants": Grants(**grants),
            "variants": tuple(Variant(**known_values(Variant, one)) for one in stored.get("variants", ())),
        }

    def report_directory(self, store: Path, sweep: str) -> Path:
        """Where the three report files go."""
        return Path(self.out) if self.out else store.parent / "eval" / sweep


def _agent_to_json(agent: AgentSettings) -> dict[str, Json]:
    return attrs.asdict(agent) | {"native_tools": list(agent.native_tools)}
