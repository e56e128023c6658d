"""Typed values of YAML documents, shared by their readers: fields in snake_case, ids, ranges, and messages of findings.

Rules look at the plain document, not at what was made of it: a value of a wrong type does not hide what is wrong beside
it. They pass over values of a wrong type, which `store.documents.structure` tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from providers.decisions.excerpts import render_line
from providers.system.paths import MAX_PATH_BYTES
from store.documents.positions import Document, DocumentPath, DocumentProblem, format_problem
from store.documents.structure import (
    Mismatch,
    PathMessage,
    describe_value,
    keep_snake_case,
    make_converter,
    structure_document,
)
from store.errors import UsageError
from store.events import Json

if TYPE_CHECKING:
    from cattrs import Converter

    from providers.decisions.schema import SchemaProblem

T = TypeVar("T")

ID = re.compile(r"[a-z0-9-]{1,100}")
"""What capabilities, nodes, backends, targets and fixtures are called: it becomes file names and words on a command
line."""
ID_RULE = "expected lower-case letters, digits and '-', at most 100 characters"
MAX_COUNT = 2**53 - 1
"""Beyond it, JSON readers do not agree on integers."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")

BOOLEAN_WORDS = frozenset({"yes", "no", "on", "off", "y", "n"})
BOOLEAN_HINT = " (in YAML here, write true or false)"


def new_yaml_converter() -> Converter:
    """A converter of `store.documents.structure` for fields in snake_case."""
    converter = make_converter(keep_snake_case)

    def check_boolean(value: Json, _: Any) -> bool:
        if not isinstance(value, bool):
            raise Mismatch(f"expected true or false, got {describe_value(value)}{boolean_hint(value)}")
        return value

    converter.register_structure_hook(bool, check_boolean)
    return converter


def structure_yaml(document: Document, into: type[T], converter: Converter) -> tuple[T | None, list[DocumentProblem]]:
    """`store.documents.structure.structure_document` for a `new_yaml_converter`."""
    return structure_document(document, into, converter, keep_snake_case)


def boolean_hint(value: Json) -> str:
    """What to write in place of `yes` and `off`, which other readers of YAML take for booleans."""
    return BOOLEAN_HINT if isinstance(value, str) and value.lower() in BOOLEAN_WORDS else ""


def format_problems(document: Document, findings: Iterable[DocumentProblem]) -> list[str]:
    """All findings of a document in its order, one text each."""
    return [format_problem(document.name, finding) for finding in sorted(set(findings))]


def make_refusal(findings: Iterable[str]) -> UsageError:
    """One error that tells all of them."""
    return UsageError("\n".join(findings))


def get_typed(of: Json, key: str, wanted: type[T]) -> T | None:
    """The value at *key*, where *of* is an object and the value has exactly the wanted type (`true` is no integer)."""
    value = of.get(key) if isinstance(of, dict) else None
    return value if type(value) is wanted else None


def iterate_entries(of: Json, key: str) -> Iterator[tuple[str, Any]]:
    """Names and values of the object at *key*; nothing where there is none."""
    yield from (get_typed(of, key, dict) or {}).items()


def iterate_items(of: Json, key: str) -> Iterator[tuple[int, Any]]:
    """Indices and values of the array at *key*; nothing where there is none."""
    yield from enumerate(get_typed(of, key, list) or [])


def check_id(name: str, at: DocumentPath) -> Iterator[PathMessage]:
    """What is wrong with an id."""
    if ID.fullmatch(name) is None:
        yield at, f"{ID_RULE}; got {describe_value(name)}"


def check_not_empty(of: Json, key: str, at: DocumentPath) -> Iterator[PathMessage]:
    """A text that may not be empty."""
    value = get_typed(of, key, str)
    if value is not None and not value.strip():
        yield (*at, key), f"expected some text, got {describe_value(value)}"


def check_range(of: Json, key: str, at: DocumentPath, minimum: float, maximum: float) -> Iterator[PathMessage]:
    """A number that has to be within bounds."""
    value = of.get(key) if isinstance(of, dict) else None
    if not isinstance(value, int | float) or isinstance(value, bool) or minimum <= value <= maximum:
        return
    wanted = f"at least {minimum}" if maximum == MAX_COUNT and value < minimum else f"{minimum} to {maximum}"
    yield (*at, key), f"expected {wanted}, got {describe_value(value)}"


def check_connection(of: Json, key: str, at: DocumentPath) -> Iterator[PathMessage]:
    """The URL at *key*, and the variable that holds its key. Neither is shown: both may hold a credential."""
    url, variable = get_typed(of, key, str), get_typed(of, "api_key_env", str)
    if url is not None and (problem := _url_problem(url)) is not None:
        yield (*at, key), problem
    if variable is not None and _VARIABLE.fullmatch(variable) is None:
        hint = "what was given is not shown: it may be a key"
        yield (*at, "api_key_env"), f"expected the name of an environment variable ({hint})"


def _url_problem(text: str) -> str | None:
    try:
        url = urlsplit(text)
        whole = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        whole = False
    if not whole:
        return "expected a URL such as https://host/v1"
    if url.username is not None or url.password is not None:
        return (
            "a URL with a user or a password in it, which would end up in records; api_key_env names a key's variable"
        )
    return None


def find_schema_problems(
    document: Document,
    at: DocumentPath,
    value: Json,
    problems: Iterable[SchemaProblem],
    *,
    schema: str,
    hint: str = "",
) -> Iterator[DocumentProblem]:
    """What is wrong with the *value* at *at* by a schema, which messages call *schema*; each with the schema's path."""
    from providers.decisions.schema import render_path

    for problem in problems:
        switch = boolean_hint(_value_at(value, problem.path)) if "boolean" in problem.message else ""
        where = f"{schema}.{render_path(problem.schema_path)}" if problem.schema_path else schema
        yield document.locate_problem((*at, *problem.path), f"{problem.message}{switch} ({where}){hint}")


def _value_at(value: Json, path: Iterable[str | int]) -> Json:
    for step in path:
        value = value[step]
    return value


def quote_path(file: Path) -> str:
    """How messages call a file whose name others may have chosen: on one line, and nothing that a terminal obeys."""
    return render_line(str(file), MAX_PATH_BYTES)


def list_known(names: Iterable[str]) -> str:
    """The names there are, for a message: as others chose them, so nothing in them is obeyed."""
    return ", ".join(render_line(name, 100) for name in sorted(names)) or "none"
