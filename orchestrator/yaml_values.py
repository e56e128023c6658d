"""Typed values of YAML documents, shared by their readers: fields in snake_case, ids, ranges, and problem messages.

Rules check the plain document, not the structured one: so a value of a wrong type does not hide the problems beside it.
They skip values of a wrong type, which `store.documents.structure` reports.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from providers.decisions.excerpts import render_line
from providers.decisions.schema import render_path
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
"""Ids of capabilities, nodes, backends, targets and fixtures; they become file names and words of a command line."""
ID_RULE = "expected lower-case letters, digits and '-', at most 100 characters"
MAX_COUNT = 2**53 - 1
"""Largest integer on which all JSON readers agree."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")

BOOLEAN_WORDS = frozenset({"yes", "no", "on", "off", "y", "n"})
"""Words that other readers of YAML take for booleans."""
BOOLEAN_HINT = " (in YAML here, write true or false)"


def new_yaml_converter() -> Converter:
    """Make a converter of `store.documents.structure` for fields in snake_case."""
    converter = make_converter(keep_snake_case)

    def check_boolean(value: Json, _: Any) -> bool:
        if not isinstance(value, bool):
            raise Mismatch(f"expected true or false, got {describe_value(value)}{boolean_hint(value)}")
        return value

    converter.register_structure_hook(bool, check_boolean)
    return converter


def structure_yaml(document: Document, into: type[T], converter: Converter) -> tuple[T | None, list[DocumentProblem]]:
    """Structure a document whose fields are in snake_case; see `store.documents.structure.structure_document`."""
    return structure_document(document, into, converter, keep_snake_case)


def boolean_hint(value: Json) -> str:
    """Return a hint on how to write a boolean, if *value* is a word such as `yes` or `off`; else an empty text."""
    return BOOLEAN_HINT if isinstance(value, str) and value.lower() in BOOLEAN_WORDS else ""


def format_problems(document: Document, problems: Iterable[DocumentProblem]) -> list[str]:
    """Format the problems of a document in its order, one text each."""
    return [format_problem(document.name, problem) for problem in sorted(set(problems))]


def make_refusal(problems: Iterable[str]) -> UsageError:
    """Make one error of all *problems*, a line each."""
    return UsageError("\n".join(problems))


def get_typed(of: Json, key: str, wanted: type[T]) -> T | None:
    """Return the value at *key* of the object *of* if its type is exactly *wanted* (a bool is no integer), or None."""
    value = of.get(key) if isinstance(of, dict) else None
    return value if type(value) is wanted else None


def iterate_entries(of: Json, key: str) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of the object at *key*; nothing if there is none."""
    yield from (get_typed(of, key, dict) or {}).items()


def iterate_items(of: Json, key: str) -> Iterator[tuple[int, Any]]:
    """Yield the indices and values of the array at *key*; nothing if there is none."""
    yield from enumerate(get_typed(of, key, list) or [])


def check_id(name: str, at: DocumentPath) -> Iterator[PathMessage]:
    """Check an id."""
    if ID.fullmatch(name) is None:
        yield at, f"{ID_RULE}; got {describe_value(name)}"


def check_not_empty(of: Json, key: str, at: DocumentPath) -> Iterator[PathMessage]:
    """Check that the text at *key* is not blank."""
    value = get_typed(of, key, str)
    if value is not None and not value.strip():
        yield (*at, key), f"expected some text, got {describe_value(value)}"


def check_range(of: Json, key: str, at: DocumentPath, minimum: float, maximum: float) -> Iterator[PathMessage]:
    """Check that the number at *key* is between *minimum* and *maximum*."""
    value = of.get(key) if isinstance(of, dict) else None
    if not isinstance(value, int | float) or isinstance(value, bool) or minimum <= value <= maximum:
        return
    wanted = f"at least {minimum}" if maximum == MAX_COUNT and value < minimum else f"{minimum} to {maximum}"
    yield (*at, key), f"expected {wanted}, got {describe_value(value)}"


def check_connection(of: Json, key: str, at: DocumentPath) -> Iterator[PathMessage]:
    """Check the URL at *key* and the name in `api_key_env`. Messages show neither: both may contain a credential."""
    url, variable = get_typed(of, key, str), get_typed(of, "api_key_env", str)
    if url is not None and (problem := _url_problem(url)) is not None:
        yield (*at, key), problem
    if variable is not None and _VARIABLE.fullmatch(variable) is None:
        hint = "the value is not shown because it may be a key"
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
            "a URL with a user or a password in it, which would be stored; put the key into a variable and name it in "
            "api_key_env"
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
    """Locate the *problems* that a schema has with the *value* at *at*; messages name *schema* and the path in it."""
    for problem in problems:
        switch = boolean_hint(_value_at(value, problem.path)) if "boolean" in problem.message else ""
        where = f"{schema}.{render_path(problem.schema_path)}" if problem.schema_path else schema
        yield document.locate_problem((*at, *problem.path), f"{problem.message}{switch} ({where}){hint}")


def _value_at(value: Json, path: Iterable[str | int]) -> Json:
    for step in path:
        value = value[step]
    return value


def quote_path(file: Path) -> str:
    """Render an untrusted file name for a message: on one line and harmless for a terminal."""
    return render_line(str(file), MAX_PATH_BYTES)


def list_known(names: Iterable[str]) -> str:
    """List untrusted names for a message, sorted and harmless for a terminal; `none` if there are none."""
    return ", ".join(render_line(name, 100) for name in sorted(names)) or "none"
