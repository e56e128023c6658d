"""JSON Schema validation: all drafts, with formats, and without fetching references.

Patterns take linear time. Not limited is a schema with exponential recursion (`anyOf` of two references to itself), so
only the owner of a configuration may write schemas.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, Never

import attrs

from providers.decisions.cel import find_value_problem
from providers.decisions.excerpts import render_line, render_value
from store.errors import EvalctlError
from store.events import Json

MAX_PROBLEMS = 20
"""Maximum number of reported problems of one value."""

ValuePath = tuple[str | int, ...]

_UNKNOWN_RESOURCE = re.compile(r"Resource '(.*)' is not present in a registry")
_VALUE_MARK = "\N{WHITE SQUARE CONTAINING BLACK SMALL SQUARE}"
"""Mask for the value in the validator's messages, which would otherwise contain all of it."""


@attrs.define(slots=False)
class BadSchema(EvalctlError):
    """A document is not a valid JSON Schema."""

    path: ValuePath
    """Path in the schema."""
    message: str

    def __str__(self) -> str:
        return f"{render_path(self.path)}: {self.message}" if self.path else self.message


@attrs.frozen
class SchemaProblem:
    """One problem of a value."""

    path: ValuePath
    """Path in the value."""
    message: str
    schema_path: ValuePath
    """Path of the violated keyword in the schema."""

    def __str__(self) -> str:
        return f"{render_path(self.path)}: {self.message}" if self.path else self.message


class JsonSchema:
    """A compiled schema.

    Raises:
        BadSchema: the document is not a JSON Schema, or refers to something outside of itself.
    """

    def __init__(self, document: Json) -> None:
        import jsonschema_rs  # noqa: PLC0415 - start-up: only a schema needs it

        # the library would read a string as JSON
        if not isinstance(document, bool | Mapping):
            raise BadSchema((), f"a JSON Schema must be an object, got {render_value(document)}")
        plain = dict(document) if isinstance(document, Mapping) else document
        if (problem := find_value_problem(plain)) is not None:
            raise BadSchema((), f"the schema {problem}")
        try:
            self._validator = jsonschema_rs.validator_for(
                plain, retriever=_refuse_fetch, validate_formats=True, ignore_unknown_formats=True, mask=_VALUE_MARK
            )
        except jsonschema_rs.ValidationError as error:
            raise BadSchema(tuple(error.instance_path), _describe_schema_error(error)) from error
        except jsonschema_rs.ReferencingError as error:
            raise BadSchema((), render_line(str(error))) from error
        except (ValueError, TypeError, RecursionError, UnicodeError) as error:
            raise BadSchema((), render_line(str(error)) or type(error).__name__) from error

    def find_problems(self, given: Json) -> tuple[SchemaProblem, ...]:
        """The problems of *given* in the schema's order: at most 20, empty if it is valid."""
        if (problem := find_value_problem(given)) is not None:
            return (SchemaProblem((), f"the value {problem}", ()),)
        errors = islice(self._validator.iter_errors(given), MAX_PROBLEMS)
        return tuple(
            SchemaProblem(tuple(error.instance_path), _describe_error(error), tuple(error.schema_path))
            for error in errors
        )


def render_path(path: ValuePath) -> str:
    """Render a path in a value, such as `tool_input.command` or `items[2].name`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{render_line(step, 60)}" if text else render_line(step, 60)
    return render_line(text)


def summarise_problems(problems: tuple[SchemaProblem, ...], limit: int = 3) -> str:
    """The first *limit* problems on one line, and the number of others."""
    more = len(problems) - limit
    text = "; ".join(str(problem) for problem in problems[:limit])
    return f"{text}; and {more} more" if more > 0 else text


def _describe_error(error: Any) -> str:
    if error.kind.name == "falseSchema":
        return f"{render_value(error.instance)} is not allowed here"
    return render_line(str(error.message).replace(_VALUE_MARK, render_value(error.instance)))


def _describe_schema_error(error: Any) -> str:
    """Describe an error in a schema, more precisely than the library where it only says that no alternative fits."""
    message = str(error.message)
    if (outside := _UNKNOWN_RESOURCE.match(message)) is not None:
        return render_line(f"a $ref must stay within its schema, nothing is fetched: {outside[1]!r}")
    if tuple(error.instance_path)[-1:] == ("type",) and error.kind.name == "anyOf":
        return f"{render_value(error.instance)} is not a type (array, boolean, integer, null, number, object, string)"
    return render_line(message.replace(_VALUE_MARK, render_value(error.instance)))


def _refuse_fetch(uri: str) -> Never:
    raise ValueError(f"a $ref must stay within its document, nothing is fetched: {uri}")
