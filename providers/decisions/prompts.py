"""Prompt templates of model nodes: texts with placeholders over `input` and `answers`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import attrs

from providers.decisions.excerpts import render_line
from store.errors import EvalctlError
from store.events import Json

TEMPLATE_ROOTS = ("input", "answers")
"""Names that a placeholder may begin with."""

_PLACEHOLDER = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_PATH_STEP = re.compile(r"[\w-]+")


@attrs.define(slots=False)
class BadTemplate(EvalctlError):
    """A template is invalid, whatever the input."""

    message: str
    offset: int
    """Place in the template, in characters from 0."""

    def __str__(self) -> str:
        return self.message


def list_placeholders(template: str) -> tuple[tuple[str, ...], ...]:
    """The paths of the placeholders in *template*, in order: `{{ input.tool_input.command }}` is
    `("input", "tool_input", "command")`.

    Raises:
        BadTemplate: a `{{` without `}}`, an invalid path, or one that begins with neither `input` nor `answers`.
    """
    paths = tuple(_parse_path(place) for place in _PLACEHOLDER.finditer(template))
    rest = _PLACEHOLDER.sub(lambda place: " " * len(place[0]), template)
    if (open_at := rest.find("{{")) >= 0:
        raise BadTemplate("`{{` without `}}`", open_at)
    return paths


def render_template(template: str, values: Mapping[str, Json]) -> str:
    """Render *template*: a string is inserted unchanged, any other value as JSON, a missing one as `null`.

    Inserted text is not searched for placeholders.

    Raises:
        BadTemplate: see `list_placeholders`.
    """
    list_placeholders(template)
    return _PLACEHOLDER.sub(lambda place: _render_value(_look_up(values, _parse_path(place))), template)


def _parse_path(place: re.Match[str]) -> tuple[str, ...]:
    text = place[1].strip()
    steps = tuple(text.split("."))
    if not all(_PATH_STEP.fullmatch(step) for step in steps):
        raise BadTemplate(f"expected a path such as input.name, got {render_line(text, 60)!r}", place.start())
    if steps[0] not in TEMPLATE_ROOTS:
        raise BadTemplate(f"expected input or answers, got {render_line(steps[0], 60)!r}", place.start())
    return steps


def _look_up(values: Mapping[str, Json], path: tuple[str, ...]) -> Json:
    here: Json = dict(values)
    for step in path:
        if isinstance(here, dict):
            here = here.get(step)
        elif isinstance(here, list) and step.isascii() and step.isdecimal() and len(step) < 10:
            here = here[int(step)] if int(step) < len(here) else None
        else:
            return None
    return here


def _render_value(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
