"""The effective configuration: every setting of a run with its value and its source, for `run --print-config`."""

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
    """One effective setting."""

    key: str
    """Key as in files; a flag that has no key in files goes by its own name."""
    value: Json
    origin: str
    """`default`, a flag, a variable, or the path of a file."""
    measured: bool = False
    """True if the setting is part of the configuration hash."""


@attrs.frozen(kw_only=True)
class Credential:
    """The environment variable that holds the provider's key, never its value."""

    variable: str
    is_set: bool
    origin: str


@attrs.frozen(kw_only=True)
class AgentOfTask:
    """A task that names its own agent and so has its own configuration."""

    task: str
    agent: str
    config_hash: str


@attrs.frozen(kw_only=True)
class OfferedTool:
    """A tool of the built-in agent, with its permission under the caller's flags."""

    name: str
    effect: str
    granted: bool
    """True if the caller granted the tool's effect, so that a task may get the tool."""


@attrs.frozen(kw_only=True)
class EffectiveConfig:
    """The effective configuration: settings, credential, tools and fixed limits."""

    config_hash: str
    settings: tuple[Setting, ...]
    credential: Credential | None
    agents: tuple[AgentOfTask, ...]
    tools: tuple[OfferedTool, ...]
    limits: Mapping[str, Json]
    """Limits that no setting changes, by name."""


def resolve_effective(
    config: Config,
    flags: Sequence[Setting],
    *,
    environment: Mapping[str, str],
    tasks: Iterable[Task],
    effects: frozenset[str],
) -> EffectiveConfig:
    """Resolve the effective configuration of a run.

    Args:
        config: the configuration with all layers applied.
        flags: settings that only flags can set.
        environment: where the credential's variable may be set.
        tasks: the selected tasks.
        effects: the effects that the caller grants.

    Raises:
        UsageError: a task names an agent that is not defined.
    """
    from orchestrator.suite.limits import FIXED_LIMITS  # noqa: PLC0415 - start-up: loads every tool of the agent
    from providers.agent.loop import TOOLS  # noqa: PLC0415 - start-up: loads every tool of the agent

    return EffectiveConfig(
        config_hash=config_hash(config.agent),
        settings=(*_list_measured_settings(config), *_list_connection_settings(config), *flags),
        credential=_find_credential(config, environment),
        agents=tuple(_list_task_agents(config, tasks)),
        tools=tuple(OfferedTool(name=tool.name, effect=tool.effect, granted=tool.effect in effects) for tool in TOOLS),
        limits=FIXED_LIMITS,
    )


def effective_to_json(effective: EffectiveConfig) -> dict[str, Json]:
    """Encode the effective configuration as a JSON object."""
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
            {"task": task.task, "agent": task.agent, "configHash": task.config_hash} for task in effective.agents
        ],
        "tools": [attrs.asdict(tool) for tool in effective.tools],
        "limits": dict(effective.limits),
    }


def list_effective_rows(effective: EffectiveConfig) -> list[tuple[Literal["*", ""], str, Json, str]]:
    """Return the rows of the terminal's table: measured mark, key, value, origin."""
    return [("*" if row.measured else "", row.key, row.value, row.origin) for row in effective.settings]


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
    from providers.registry import DEFAULT_KEY_VARIABLES  # noqa: PLC0415 - start-up: only --print-config needs it

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
