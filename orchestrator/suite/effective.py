"""What a run would be done with: every setting, its value, and where it came from. Only tells; nothing runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import attrs

from orchestrator.measured import config_hash, measured_document
from orchestrator.suite.config import CONNECTION, Config, with_agent
from orchestrator.suite.model import Task
from store.events import Json

SCHEMA = "evalctl.config/1"
DEFAULT = "default"


@attrs.frozen(kw_only=True)
class Setting:
    """One setting as it holds."""

    key: str
    """As files spell it; a flag without a key in files goes by its own name."""
    value: Json
    origin: str
    """`default`, a flag, a variable, or the path of a file."""
    measured: bool = False
    """It enters the configuration hash."""


@attrs.frozen(kw_only=True)
class Credential:
    """The variable that holds the provider's key; never what is in it."""

    variable: str
    is_set: bool
    origin: str


@attrs.frozen(kw_only=True)
class AgentOfTask:
    """A task that asks for an agent of its own, and so for a configuration of its own."""

    task: str
    agent: str
    config_hash: str


@attrs.frozen(kw_only=True)
class OfferedTool:
    """A tool of the built-in agent under the caller's flags."""

    name: str
    effect: str
    granted: bool
    """Whether a task may be given it at most."""


@attrs.frozen(kw_only=True)
class EffectiveConfig:
    """All of it."""

    config_hash: str
    settings: tuple[Setting, ...]
    credential: Credential | None
    agents: tuple[AgentOfTask, ...]
    tools: tuple[OfferedTool, ...]
    limits: Mapping[str, Json]
    """Bounds that no setting changes."""


def resolve_effective(
    config: Config,
    flags: Sequence[Setting],
    *,
    environment: Mapping[str, str],
    tasks: Iterable[Task],
    effects: frozenset[str],
) -> EffectiveConfig:
    """Lay everything out: *flags* are the settings that only flags have, *effects* what the caller grants.

    Raises:
        UsageError: a task asks for an agent that is not defined.
    """
    from orchestrator.suite.limits import FIXED_LIMITS
    from providers.agent.loop import TOOLS

    return EffectiveConfig(
        config_hash=config_hash(config.agent),
        settings=(*_list_measured_settings(config), *_list_connection_settings(config), *flags),
        credential=_find_credential(config, environment),
        agents=tuple(_list_task_agents(config, tasks)),
        tools=tuple(OfferedTool(name=tool.name, effect=tool.effect, granted=tool.effect in effects) for tool in TOOLS),
        limits=FIXED_LIMITS,
    )


def effective_to_json(effective: EffectiveConfig) -> dict[str, Json]:
    """As a JSON object."""
    return {
        "schema": SCHEMA,
        "configHash": effective.config_hash,
        "settings": [attrs.asdict(setting) for setting in effective.settings],
        "credential": None
        if effective.credential is None
        else {
            "variable": effective.credential.variable,
            "set": effective.credential.is_set,
            "origin": effective.credential.origin,
        },
        "taskAgents": [
            {"task": one.task, "agent": one.agent, "configHash": one.config_hash} for one in effective.agents
        ],
        "tools": [attrs.asdict(tool) for tool in effective.tools],
        "limits": dict(effective.limits),
    }


def list_effective_rows(effective: EffectiveConfig) -> list[tuple[Literal["*", ""], str, Json, str]]:
    """For people: whether it is measured, key, value, origin."""
    return [("*" if one.measured else "", one.key, one.value, one.origin) for one in effective.settings]


def _list_measured_settings(config: Config) -> Iterable[Setting]:
    for name, value in measured_document(config.agent).items():
        key = "agents.definitions" if name == "agents.definition" else name
        used = value is not None or key != "agents.definitions"
        yield Setting(
            key=name, value=value, origin=config.origins.get(key, DEFAULT) if used else DEFAULT, measured=True
        )


def _list_connection_settings(config: Config) -> Iterable[Setting]:
    for name, (field, _check) in CONNECTION.items():
        yield Setting(key=name, value=getattr(config, field), origin=config.origins.get(name, DEFAULT))
    for model, price in config.prices.items():
        key = f"prices.{model}"
        yield Setting(key=key, value=price.to_json(), origin=config.origins.get(key, DEFAULT))


def _find_credential(config: Config, environment: Mapping[str, str]) -> Credential | None:
    from providers.registry import DEFAULT_KEY_VARIABLES

    variable = config.api_key_env or DEFAULT_KEY_VARIABLES.get(config.provider or "")
    if variable is None:
        return None
    origin = config.origins.get("apiKeyEnv", f"usual for {config.provider}")
    return Credential(variable=variable, is_set=bool(environment.get(variable)), origin=origin)


def _list_task_agents(config: Config, tasks: Iterable[Task]) -> Iterable[AgentOfTask]:
    for task in tasks:
        if task.agent is not None:
            own = with_agent(config.agent, task.agent, config.definitions, where=f"task '{task.id}': agent")
            yield AgentOfTask(task=task.id, agent=task.agent, config_hash=config_hash(own))
