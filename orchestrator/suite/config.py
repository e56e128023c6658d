"""Configuration: the measured settings and the provider to call, read once at the command line into one frozen value.

There are four layers, and a later layer wins key by key: defaults, the user's `config.json`, the project's
`evalctl.json` (or the file that `--config` names instead), flags. `Config.origins` records the source of each key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from orchestrator.credentials import expect_variable
from orchestrator.measured import (
    MEASURED,
    Check,
    expect_flag,
    expect_text,
    expect_whole,
)
from providers.base import AgentSettings
from providers.prices import table
from providers.prices.price import Price
from store.documents.structure import PathMessage, describe_value, suggest_nearest
from store.errors import UsageError
from store.events import Json

if TYPE_CHECKING:
    from store.documents.positions import Document

PROJECT_FILE = "evalctl.json"
USER_FILE = "config.json"
BUILT_IN_AGENT = "build"


def _check_url(value: Json) -> str | None:
    """Check a base URL. The message never shows the value, because a URL may contain a password."""
    from urllib.parse import parse_qsl, urlsplit  # noqa: PLC0415 - start-up: only a base URL needs it

    try:
        url = urlsplit(value) if isinstance(value, str) else None
        host = url.hostname if url is not None else None
    except ValueError:
        return "expected a URL such as https://host/v1"
    if url is None or url.scheme not in ("http", "https") or not host:
        scheme = url.scheme if url is not None and url.scheme not in ("http", "https") else ""
        return "expected a URL such as https://host/v1" + (f", not the scheme {scheme}" if scheme else "")
    if url.username is not None or url.password is not None:
        return (
            "the base URL contains a user name or a password, which would be stored; name the variable that holds "
            "the credential (apiKeyEnv, --api-key-env)"
        )
    if url.fragment or any(name != "api-version" for name, _ in parse_qsl(url.query, keep_blank_values=True)):
        return "the URL's query may contain only api-version: anything else may be a key"
    return None


DEFINITIONS = "agents.definitions"

CONNECTION: Mapping[str, tuple[str, Check]] = {
    "provider": ("provider", expect_text),
    "model": ("model", expect_text),
    "baseUrl": ("base_url", _check_url),
    "apiKeyEnv": ("api_key_env", expect_variable),
    "contextWindow": ("context_window", expect_whole(1, 100_000_000, unset=True)),
    "fetch.allowPrivate": ("fetch_private", expect_flag),
}
"""Keys of the endpoint and the network: field of `Config` and check. They are conditions of a sweep and not part of the
configuration hash."""

NEEDS_TRUST: Mapping[str, str] = {
    **dict.fromkeys(("provider", "baseUrl", "apiKeyEnv"), "it decides where a key is sent"),
    "fetch.allowPrivate": "it opens your own network to a model",
}
"""Keys that could do harm in a project's file, each with the reason."""

GROUPS = frozenset(name.partition(".")[0] for name in (*MEASURED, *CONNECTION, DEFINITIONS) if "." in name)


@attrs.frozen(kw_only=True)
class Config:
    """Configuration from defaults and files. The verbs then apply their flags to it."""

    agent: AgentSettings = attrs.field(factory=AgentSettings)
    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    """Name of the variable, never its value."""
    context_window: int | None = None
    """Size of the model's context window in tokens, if known."""
    fetch_private: bool = False
    """Permission for `fetch_url` to reach this machine and private networks."""
    definitions: Mapping[str, str] = attrs.field(factory=dict)
    """Instructions of the agents that the files define, by name."""
    prices: table.Prices = attrs.field(factory=dict[str, Price])
    """Prices by model name. They are a condition of a sweep and not part of the configuration hash."""
    origins: Mapping[str, str] = attrs.field(factory=dict)
    """Source of each key that is not a default, by its name in files."""


def load_config(environment: Mapping[str, str], cwd: Path, explicit: Path | None, trust_project: bool) -> Config:
    """Read the configuration files that apply in *cwd*.

    *explicit* (`--config`) replaces the project's file. It is trusted, because the caller named it.

    Raises:
        UsageError: a file is malformed (lists all its problems), or *explicit* is missing.
    """
    config = Config()
    user = find_user_file(environment)
    if user is not None and user.is_file():
        config = _apply_file(config, user, trusted=True)
    project = explicit or find_project_file(cwd)
    if project is not None:
        config = _apply_file(config, project, trusted=trust_project or explicit is not None)
    return _activate_agent(config)


def with_values(config: Config, values: Mapping[str, Json], source: str) -> Config:
    """Apply flags or a variant's overrides to *config*; names are dotted as in files (`compaction.threshold`).

    Raises:
        UsageError: unknown keys or invalid values; lists all of them.
    """
    problems = []
    for name, value in values.items():
        check = _find_check(name)
        problem = f"unknown key{suggest_nearest(name, _list_known_keys())}" if check is None else check(value)
        if problem:
            problems.append(f"{source}: {name}: {problem}")
    if problems:
        raise UsageError("\n".join(problems))
    return _activate_agent(_merge_values(config, values, source))


def with_flags(config: Config, flags: Mapping[str, tuple[str, Json]]) -> Config:
    """Apply command-line flags to *config*: by flag, the key that it sets and the value, None for a flag not given.

    Raises:
        UsageError: invalid values; lists all of them.
    """
    problems = []
    for flag, (name, value) in flags.items():
        if value is not None:
            try:
                config = with_values(config, {name: value}, flag)
            except UsageError as error:
                problems.append(str(error))
    if problems:
        raise UsageError("\n".join(problems))
    return config


def with_prices(config: Config, file: Path | None) -> Config:
    """Apply a file of prices (`--prices`) to *config*, model by model.

    Raises:
        UsageError: the file cannot be read or is not a valid price table.
    """
    return config if file is None else _merge_prices(config, table.load_prices(file), f"--prices {file}")


def with_agent(settings: AgentSettings, name: str, definitions: Mapping[str, str], *, where: str) -> AgentSettings:
    """Return *settings* with the agent *name* active and with its instructions; the built-in agent may have none.

    Raises:
        UsageError: no agent has that name; *where* names the place that requests it.
    """
    if name not in definitions and name != BUILT_IN_AGENT:
        known = [BUILT_IN_AGENT, *definitions]
        hint = suggest_nearest(name, known)
        raise UsageError(f"{where}: no agent called {name!r}{hint}; defined: {', '.join(sorted(set(known)))}")
    return attrs.evolve(settings, agent=name, instructions=definitions.get(name))


def find_user_file(environment: Mapping[str, str]) -> Path | None:
    """Return the path of the user's configuration file, which may not exist; None if the environment names no home."""
    if environment.get("EVALCTL_CONFIG_HOME"):
        return Path(environment["EVALCTL_CONFIG_HOME"]) / USER_FILE
    base = environment.get("XDG_CONFIG_HOME", "")
    if Path(base).is_absolute():  # the XDG specification ignores relative paths
        return Path(base) / "evalctl" / USER_FILE
    home = environment.get("HOME", "")
    return Path(home) / ".config" / "evalctl" / USER_FILE if home else None


def find_project_file(cwd: Path) -> Path | None:
    """Return the nearest `evalctl.json` in *cwd* or a parent directory, or None."""
    here = cwd.resolve()
    return next((at / PROJECT_FILE for at in (here, *here.parents) if (at / PROJECT_FILE).is_file()), None)


# --- files ------------------------------------------------------------------------------------------------------


def _apply_file(config: Config, file: Path, *, trusted: bool) -> Config:
    from store.documents.positions import read_json  # noqa: PLC0415 - start-up: only a configuration file needs it

    document = read_json(file)
    prices = table.read_exact_table(document)
    problems = [*_find_problems(document.value, trusted=trusted)]
    if isinstance(document.value, dict) and table.PRICES_KEY in document.value:
        problems += table.find_table_problems(prices)
    if problems:
        raise document.make_usage_error(document.locate_problem(path, message) for path, message in problems)
    return _merge_prices(
        _merge_values(config, dict(_flatten_document(document)), str(file)), table.parse_prices(prices or {}), str(file)
    )


def _flatten_document(document: Document) -> Iterator[tuple[str, Json]]:
    for key, value in document.value.items():
        if key in GROUPS:
            yield from ((f"{key}.{name}", inner) for name, inner in value.items())
        elif key not in {"schemaVersion", table.PRICES_KEY}:
            yield key, value


def _find_problems(document: Json, *, trusted: bool) -> Iterator[PathMessage]:
    if not isinstance(document, dict):
        yield (), f"expected an object, got {describe_value(document)}"
        return
    if "schemaVersion" not in document:
        yield (), "missing required field 'schemaVersion'"
    for key, value in document.items():
        if key == table.PRICES_KEY:
            pass  # `_apply_file` checks the prices, with exact numbers
        elif key in GROUPS:
            yield from _check_group(key, value, trusted=trusted)
        elif problem := _find_key_problem(key, value, trusted=trusted):
            yield (key,), problem


def _find_key_problem(key: str, value: Json, *, trusted: bool) -> str | None:
    """Return the problem of a top-level key that is neither a group nor the prices."""
    if key == "schemaVersion":
        return None if type(value) is int and value == 1 else f"expected 1, got {describe_value(value)}"
    if key in NEEDS_TRUST and not trusted:
        return _explain_untrusted(key)
    check = _find_check(key) if "." not in key else None
    if check is None:
        known = [*GROUPS, *_list_known_keys(), table.PRICES_KEY, "schemaVersion"]
        return f"unknown field {key!r}{suggest_nearest(key, known)}"
    return check(value)


def _explain_untrusted(name: str) -> str:
    return f"a project's file may set this only with --trust-project: {NEEDS_TRUST[name]}"


def _check_group(group: str, value: Json, *, trusted: bool) -> Iterator[PathMessage]:
    if not isinstance(value, dict):
        yield (group,), f"expected an object, got {describe_value(value)}"
        return
    for name, inner in value.items():
        check = _find_check(f"{group}.{name}")
        if f"{group}.{name}" == DEFINITIONS:
            yield from _check_definitions(inner)
        elif check is None:
            known = [key.partition(".")[2] for key in (*_list_known_keys(), DEFINITIONS) if key.startswith(f"{group}.")]
            yield (group, name), f"unknown field {name!r}{suggest_nearest(name, known)}"
        elif f"{group}.{name}" in NEEDS_TRUST and not trusted:
            yield (group, name), _explain_untrusted(f"{group}.{name}")
        elif problem := check(inner):
            yield (group, name), problem


def _check_definitions(value: Json) -> Iterator[PathMessage]:
    if not isinstance(value, dict):
        yield ("agents", "definitions"), f"expected an object, got {describe_value(value)}"
        return
    for agent, definition in value.items():
        at = ("agents", "definitions", agent)
        if not isinstance(definition, dict):
            yield at, f"expected an object, got {describe_value(definition)}"
            continue
        if "instructions" not in definition:
            yield at, "missing required field 'instructions'"
        for key, inner in definition.items():
            problem = expect_text(inner) if key == "instructions" else f"unknown field {key!r}"
            if problem:
                yield (*at, key), problem


def _list_known_keys() -> list[str]:
    return [*MEASURED, *CONNECTION]


def _find_check(name: str) -> Check | None:
    if name in MEASURED:
        return MEASURED[name].check
    return CONNECTION[name][1] if name in CONNECTION else None


def _merge_values(config: Config, values: Mapping[str, Json], source: str) -> Config:
    settings: dict[str, Json] = {}
    connection: dict[str, Json] = {}
    definitions = dict(config.definitions)
    for name, value in values.items():
        if name == DEFINITIONS:
            definitions |= {agent: definition["instructions"] for agent, definition in value.items()}
        elif name in CONNECTION:
            connection[CONNECTION[name][0]] = value
        else:
            settings[MEASURED[name].field] = tuple(value) if name == "nativeTools" else value
    return attrs.evolve(
        config,
        agent=attrs.evolve(config.agent, **settings),
        definitions=definitions,
        origins={**config.origins, **dict.fromkeys(values, source)},
        **connection,
    )


def _merge_prices(config: Config, prices: table.Prices, source: str) -> Config:
    """Replace prices model by model, with all tiers at once: tiers of two price lists do not form a price."""
    origins = {**config.origins, **{f"{table.PRICES_KEY}.{model}": source for model in prices}}
    return attrs.evolve(config, prices={**config.prices, **prices}, origins=origins)


def _activate_agent(config: Config) -> Config:
    """Give the active agent its instructions. All layers must be merged before."""
    where = f"{config.origins.get('agents.active', '')}: agents.active".removeprefix(": ")
    return attrs.evolve(config, agent=with_agent(config.agent, config.agent.agent, config.definitions, where=where))
