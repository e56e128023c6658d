"""Prompt templates of model nodes: texts with placeholders over `input` and `answers`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import attrs

from providers.decisions.shown import line
from store.errors import EvalctlError
from store.events import Json

ROOTS = ("input", "answers")
"""Names that a placeholder may begin with."""

_PLACE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_STEP = re.compile(r"[\w-]+")


@attrs.define(slots=False)
class BadTemplate(EvalctlError):
    """A template is invalid, whatever the input."""

    message: str
    offset: int
    """Place in the template, in characters from 0."""

    def __str__(self) -> str:
        return self.message


def places(template: str) -> tuple[tuple[str, ...], ...]:
    """The paths of the placeholders in *template*, in order: `{{ input.tool_input.command }}` is
    `("input", "tool_input", "command")`.

    Raises:
        BadTemplate: a `{{` without `}}`, an invalid path, or one that begins with neither `input` nor `answers`.
    """
    found = tuple(_path(place) for place in _PLACE.finditer(template))
    rest = _PLACE.sub(lambda place: " " * len(place[0]), template)
    if (open_at := rest.find("{{")) >= 0:
        raise BadTemplate("`{{` without `}}`", open_at)
    return found


def rendered(template: str, values: Mapping[str, Json]) -> str:
    """Render *template*: a string is inserted unchanged, any other value as JSON, a missing one as `null`.

    Inserted text is not searched for placeholders.

    Raises:
        BadTemplate: see `places`.
    """
    places(template)
    return _PLACE.sub(lambda place: _written(_found(values, _path(place))), template)


def _path(place: re.Match[str]) -> tuple[str, ...]:
    text = place[1].strip()
    steps = tuple(text.split("."))
    if not all(_STEP.fullmatch(step) for step in steps):
        raise BadTemplate(f"expected a path such as input.name, got {line(text, 60)!r}", place.start())
    if steps[0] not in ROOTS:
        raise BadTemplate(f"expected input or answers, got {line(steps[0], 60)!r}", place.start())
    return steps


def _found(values: Mapping[str, Json], path: tuple[str, ...]) -> Json:
    here: Json = dict(values)
    for step in path:
        if isinstance(here, dict):
            here = here.get(step)
        elif isinstance(here, list) and step.isascii() and step.isdecimal() and len(step) < 10:
            here = here[int(step)] if int(step) < len(here) else None
        else:
            return None
    return here


def _written(found: Json) -> str:
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
