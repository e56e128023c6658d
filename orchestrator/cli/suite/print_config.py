"""`run --print-config`: every setting with its value and its origin, as a table or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from orchestrator.cli.common import COMMON, print_data, print_json
from orchestrator.suite.effective import DEFAULT, EffectiveConfig, Setting, effective_to_json, list_effective_rows
from orchestrator.text import align_rows, make_printable, one_line

if TYPE_CHECKING:
    from store.events import Json

DEFAULT_FIELDS = {"concurrency": "concurrency", "max_wait": "max_wait_s", "max_stall": "max_stall_s"}
"""By flag whose default stands in `Settings`, the field."""
NO_FLAG_ROW = frozenset(
    {
        "suite",
        "provider",
        "model",
        "base_url",
        "api_key_env",
        "config",
        "prices",
        "trust_project",
        "yes",
        "print_config",
    }
)
"""Parameters without a row of their own: other rows show them by their key in files, or show the file they name."""


def flags_of(context: typer.Context) -> list[Setting]:
    """List the settings that only flags have, also those that were not given."""
    return [
        Setting(
            key=parameter.opts[-1].removeprefix("--"),
            value=_flag_value(context, name),
            origin=_flag_origin(context, name),
        )
        for parameter in context.command.params
        if (name := parameter.name) is not None and name not in NO_FLAG_ROW and name in context.params
    ]


def store_of(environment: Mapping[str, str]) -> Setting:
    """Return the path of the store as a setting; the file need not exist."""
    from store.sql.database import locate_store

    path = locate_store(COMMON.store, environment, Path.cwd())
    variable = "EVALCTL_STORE" if environment.get("EVALCTL_STORE") else DEFAULT
    return Setting(key="store", value=str(path), origin="--store" if COMMON.store else variable)


def _flag_value(context: typer.Context, name: str) -> Json:
    import attrs

    from orchestrator.suite.settings import Settings

    value: Any = context.params[name]
    if value is None and name in DEFAULT_FIELDS:
        return attrs.fields_dict(Settings)[DEFAULT_FIELDS[name]].default
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _flag_origin(context: typer.Context, name: str) -> str:
    source = context.get_parameter_source(name)
    return "flag" if source is not None and source.name == "COMMANDLINE" else DEFAULT


def print_effective(effective: EffectiveConfig) -> None:
    """Print the settings, the credential's state, the tools and the fixed limits."""
    if COMMON.json:
        print_json(effective_to_json(effective))
    else:
        print_data(make_printable("\n".join(_effective_lines(effective)), sys.stdout.encoding))


def _effective_lines(effective: EffectiveConfig) -> Iterator[str]:
    yield f"configuration hash {effective.config_hash}, over the settings marked *"
    yield ""
    yield from _table_lines(
        [
            ("", "SETTING", "VALUE", "FROM"),
            *((mark, key, _format_value(value), origin) for mark, key, value, origin in list_effective_rows(effective)),
        ]
    )
    yield ""
    yield _describe_credential(effective)
    for agent in effective.agents:
        name = one_line(agent.agent)
        yield f"task {one_line(agent.task)} has the agent {name}: configuration hash {agent.config_hash}"
    yield ""
    head = [("TOOL", "EFFECT", "GRANTED")]
    yield from _table_lines(
        [*head, *((tool.name, tool.effect, "yes" if tool.granted else "no") for tool in effective.tools)]
    )
    yield ""
    yield from _table_lines(
        [("FIXED LIMIT", "VALUE"), *((name, f"{value:,}") for name, value in effective.limits.items())]
    )


def _describe_credential(effective: EffectiveConfig) -> str:
    key = effective.credential
    if key is None:
        return "credential: none"
    state = "set" if key.is_set else "not set"
    return f"credential: in the variable {key.variable} ({one_line(key.origin)}), which is {state}"


def _format_value(value: Json) -> str:
    if value is None:
        return "-"
    return one_line(value if isinstance(value, str) else json.dumps(value), 80)


def _table_lines(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    yield from align_rows([[one_line(cell, 300) for cell in line] for line in lines])
