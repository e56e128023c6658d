"""Settings of a suite's sweep: resolved once at the command line, stored with the sweep, read back by `resume`.

No code below the command line reads flags, files or the environment to learn a setting.
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
"""Names of all fields in the order of storage, so that equal settings give equal bytes in every version."""


@attrs.frozen(kw_only=True)
class Settings(Terms):
    """Settings of a suite's sweep, in order of precedence: flags, the project's file, the user's file, defaults."""

    suite: str
    tasks: tuple[str, ...] = ()
    """Ids of the selected tasks; empty selects all."""
    cassette_dir: str | None = None
    """Directory of a replay's cassettes; None is the suite's own directory."""
    replay_of: str | None = None
    """Name of the stored sweep that a replay repeats; None if it plays cassettes."""
    played: Mapping[str, str] = attrs.field(factory=dict)
    """Checksum of the cassette that a replay plays, by task id; `resume` continues only with the same cassettes."""
    provider: str
    model: str
    base_url: str | None = None
    api_key_env: str | None = None
    """Name of the variable that holds the credential, never its value."""
    context_window: int | None = None
    """Size of the model's context window in tokens, if known."""
    fetch_private: bool = False
    """Permission for `fetch_url` to reach this machine and private networks."""
    agent: AgentSettings
    agents: Mapping[str, str] = attrs.field(factory=dict)
    """Instructions of the agents that the configuration files define, by name; a task's `agent` names one."""
    config_hash: str
    variants: tuple[Variant, ...] = ()
    """Compared configurations, the baseline first; empty in a sweep of one configuration."""
    grants: Grants
    input_rate: str | None = None
    output_rate: str | None = None
    """USD per million tokens as decimal text; both rates or neither. Only the report's estimate uses them."""
    sandbox: SandboxKind = "none"
    """Sandbox for programs of the agent and of the suite."""

    def select_agent(self, name: str | None, variant: str = "") -> AgentSettings:
        """Return the measured configuration under a variant, with the agent *name* active (None: the configured one).

        Raises:
            UsageError: no agent has that name.
        """
        agent = self._resolve_variant(variant) if variant else self.agent
        if name is None or name == agent.agent:
            return agent
        return with_agent(agent, name, self.agents, where="a task's agent")

    def list_variant_ids(self) -> tuple[str, ...]:
        """Return the variants' ids; only the empty id if the sweep compares nothing."""
        return tuple(variant.id for variant in self.variants) or ("",)

    def variants_to_json(self) -> dict[str, Json]:
        """Encode each variant's resolved configuration for readers of the record; `from_json` does not need it."""
        return {variant.id: {"agent": _agent_to_json(self.select_agent(None, variant.id))} for variant in self.variants}

    def _resolve_variant(self, wanted: str) -> AgentSettings:
        overrides = next(variant.overrides for variant in self.variants if variant.id == wanted)
        config = Config(agent=self.agent, definitions=self.agents)
        return with_values(config, overrides, f"variant {wanted}").agent

    def to_json(self) -> dict[str, Json]:
        """Encode the settings as stored in the sweep's conditions, keys in the order of `STORED_FIELDS`."""
        values = super().to_json()
        values["grants"]["effects"] = sorted(self.grants.effects)
        values["agent"] = _agent_to_json(self.agent)
        values["tasks"] = list(self.tasks)
        values["agents"] = dict(self.agents)
        values["variants"] = [{"id": variant.id, "overrides": dict(variant.overrides)} for variant in self.variants]
        return {name: values[name] for name in STORED_FIELDS}

    @classmethod
    def read_values(cls, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Decode the stored values of known fields."""
        grants = known_values(Grants, stored["grants"])
        agent = known_values(AgentSettings, stored["agent"])
        agent["native_tools"] = tuple(agent.get("native_tools", ()))
        grants["effects"] = frozenset(grants["effects"])
        return super().read_values(stored) | {
            "tasks": tuple(stored["tasks"]),
            "agent": AgentSettings(**agent),
            "grants": Grants(**grants),
            "variants": tuple(Variant(**known_values(Variant, each)) for each in stored.get("variants", ())),
        }

    def report_directory(self, store: Path, sweep: str) -> Path:
        """Return the directory for the three report files."""
        return Path(self.out) if self.out else store.parent / "eval" / sweep


def _agent_to_json(agent: AgentSettings) -> dict[str, Json]:
    return attrs.asdict(agent) | {"native_tools": list(agent.native_tools)}
