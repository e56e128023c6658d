"""`run --print-config`: every setting with its value and its origin, for people or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from orchestrator.cli.common import COMMON, print_data
from orchestrator.suite.effective import DEFAULT, EffectiveConfig, Setting, effective_to_json, list_effective_rows
from orchestrator.text import align_rows, make_printable, one_line

if TYPE_CHECKING:
    from store.events import Json

STANDARD = {"concurrency": "concurrency", "max_wait": "max_wait_s", "max_stall": "max_stall_s"}
"""Flags whose default stands in `Settings`, and its field."""
ELSEWHERE = frozenset(
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
"""Parameters that are told otherwise: by their keys in files, or as the file that they name."""


def flags_of(context: typer.Context) -> list[Setting]:
    """The settings that only flags have, those that were not given, too."""
    return [
        Setting(
            key=parameter.opts[-1].removeprefix("--"),
            value=_flag_value(context, name),
            origin=_flag_origin(context, name),
        )
        for parameter in context.command.params
        if (name := parameter.name) is not None and name not in ELSEWHERE and name in context.params
    ]


def store_of(environment: Mapping[str, str]) -> Setting:
    """Where the store would be."""
    from store.sql.database import locate_store

    path = locate_store(COMMON.store, environment, Path.cwd())
    variable = "EVALCTL_STORE" if environment.get("EVALCTL_STORE") else DEFAULT
    return Setting(key="store", value=str(path), origin="--store" if COMMON.store else variable)


def _flag_value(context: typer.Context, name: str) -> Json:
    import attrs

    from orchestrator.suite.settings import Settings

    value: Any = context.params[name]
    if value is None and name in STANDARD:
        return attrs.fields_dict(Settings)[STANDARD[name]].default
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _flag_origin(context: typer.Context, name: str) -> str:
    source = context.get_parameter_source(name)
    return "flag" if source is not None and source.name == "COMMANDLINE" else DEFAULT


def print_effective(found: EffectiveConfig) -> None:
    """Print it."""
    if COMMON.json:
        print_data(json.dumps(effective_to_json(found)))
    else:
        print_data(make_printable("\n".join(_effective_lines(found)), sys.stdout.encoding))


def _effective_lines(found: EffectiveConfig) -> Iterator[str]:
    yield f"configuration hash {found.config_hash}, over the settings marked *"
    yield ""
    yield from _table_lines(
        [
            ("", "SETTING", "VALUE", "FROM"),
            *((mark, key, _format_value(v), o) for mark, key, v, o in list_effective_rows(found)),
        ]
    )
    yield ""
    yield _describe_credential(found)
    for one in found.agents:
        yield f"task {one_line(one.task)} has the agent {one_line(one.agent)}: configuration hash {one.config_hash}"
    yield ""
    granted = [("TOOL", "EFFECT", "GRANTED")]
    yield from _table_lines(
        [*granted, *((one.name, one.effect, "yes" if one.granted else "no") for one in found.tools)]
    )
    yield ""
    yield from _table_lines([("FIXED LIMIT", "VALUE"), *((name, f"{value:,}") for name, value in found.limits.items())])


def _describe_credential(found: EffectiveConfig) -> str:
    key = found.credential
    if key is None:
        return "credential: none is sent"
    state = "set" if key.is_set else "not set"
    return f"credential: in the variable {key.variable} ({one_line(key.origin)}), which is {state}"


def _format_value(value: Json) -> str:
    if value is None:
        return "-"
    return one_line(value if isinstance(value, str) else json.dumps(value), 80)


def _table_lines(lines: Sequence[Sequence[str]]) -> Iterator[str]:
    yield from align_rows([[one_line(cell, 300) for cell in line] for line in lines])
