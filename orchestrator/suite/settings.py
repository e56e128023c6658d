"""What one invocation decided: resolved once at the edge, stored with the sweep, read back by `resume`.

Nothing below the command line reads flags, files or the environment to learn a setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from orchestrator.suite.config import Config, with_agent, with_values
from orchestrator.suite.effects import Grants
from orchestrator.suite.variant import Variant
from providers.base import AgentSettings
from providers.prices import table
from providers.prices.price import Price
from store.events import Json
from store.rows import Caps

if TYPE_CHECKING:
    from providers.system.sandbox import Kind


@attrs.frozen(kw_only=True)
class Settings:
    """Settings of a sweep. Flags beat the project's file, which beats the user's file, which beats the defaults."""

    suite: str
    tasks: tuple[str, ...] = ()
    """Chosen task ids; empty means all."""
    k: int = 5
    """Repetitions of every task."""
    seed: int = 0
    """Orders the runs; never sent to a provider."""
    mode: str = "live"
    cassette_dir: str | None = None
    """Where the recordings of a replay are; None is the suite's own directory."""
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
    """Instructions of the agents that files define, by name: what a task's `agent` may ask for."""
    config_hash: str
    variants: tuple[Variant, ...] = ()
    """What is compared, the first being the baseline; none in a sweep of one configuration."""
    grants: Grants
    caps: Caps = attrs.field(factory=Caps)
    prices: table.Prices = attrs.field(factory=dict[str, Price])
    """What the models that are asked cost, by name; one that is not in it has an unknown price."""
    concurrency: int = 4
    """Runs in flight at once in this process."""
    rpm: float | None = None
    """Requests per minute that the account may be asked, over all live processes."""
    tpm: float | None = None
    """Tokens per minute, by upper bounds corrected when requests have been answered."""
    max_wall_s: float | None = None
    """Deadline of the whole sweep, in this invocation."""
    max_wait_s: float = 120.0
    """A Retry-After longer than this fails at once."""
    max_stall_s: float = 600.0
    """How long nothing may happen while something is waited for: a throttled provider, another process, the store."""
    input_rate: str | None = None
    output_rate: str | None = None
    """USD per million tokens as decimal text: both or neither; only for the report's estimate."""
    sandbox: Kind = "none"
    """What programs of the agent and of the suite are confined by."""
    keep: bool = False
    out: str | None = None

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
        """As stored in the sweep's conditions."""
        values = attrs.asdict(self)
        values["grants"]["effects"] = sorted(self.grants.effects)
        values["agent"] = _agent_to_json(self.agent)
        values["tasks"] = list(self.tasks)
        values["agents"] = dict(self.agents)
        values["prices"] = table.written(self.prices)
        values["variants"] = [{"id": one.id, "overrides": dict(one.overrides)} for one in self.variants]
        return values

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Settings:
        """Read back what `to_json` wrote; fields a newer version added are left out, missing ones get defaults."""
        values = _known(cls, stored)
        grants = _known(Grants, stored["grants"])
        agent = _known(AgentSettings, stored["agent"])
        agent["native_tools"] = tuple(agent.get("native_tools", ()))
        grants["effects"] = frozenset(grants["effects"])
        values |= {
            "tasks": tuple(stored["tasks"]),
            "agent": AgentSettings(**agent),
            "grants": Grants(**grants),
            "caps": Caps(**_known(Caps, stored["caps"])),
            "prices": table.read(stored.get("prices", {})),
            "variants": tuple(Variant(**_known(Variant, one)) for one in stored.get("variants", ())),
        }
        return cls(**values)

    def report_directory(self, store: Path, sweep: str) -> Path:
        """Where the three report files go."""
        return Path(self.out) if self.out else store.parent / "eval" / sweep


def _agent_to_json(agent: AgentSettings) -> dict[str, Json]:
    return attrs.asdict(agent) | {"native_tools": list(agent.native_tools)}


def _known(cls: type[attrs.AttrsInstance], stored: Mapping[str, Any]) -> dict[str, Any]:
    names = {field.name for field in attrs.fields(cls)}
    return {name: value for name, value in stored.items() if name in names}
