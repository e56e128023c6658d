"""Deserialization of documents into frozen attrs classes; reports every mismatch of a file at once.

Field names are snake_case in Python and camelCase in files, unless the caller passes another spelling. Types are strict
(neither `true` nor `"30"` is an integer, a string is not an array), and unknown keys are refused. cattrs does the work
and is imported only when a file is read.
"""

from __future__ import annotations

import difflib
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin

import attrs

from store.documents.positions import Document, DocumentPath, DocumentProblem
from store.events import Json

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")
Hook = Callable[[Any, Any], Any]
PathMessage = tuple[DocumentPath, str]
Spelling = Callable[[str], str]
"""Converts a field's Python name to its spelling in files."""


@attrs.define(slots=False)
class Mismatch(ValueError):
    """A value does not match the expected type. cattrs adds notes to it, so it is not frozen."""

    message: str
    below: DocumentPath = ()
    """Path of the mismatch inside the value."""

    def __str__(self) -> str:
        return self.message


def to_camel_case(name: str) -> str:
    """Convert `max_wall_ms` to `maxWallMs`, the usual spelling in files."""
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


def keep_snake_case(name: str) -> str:
    """Keep the Python spelling, for files that use it."""
    return name


def to_kebab_case(name: str) -> str:
    """Convert a class name such as `MaxCalls` to `max-calls`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


def suggest_nearest(word: object, among: Iterable[str]) -> str:
    """Return ` (did you mean 'command'?)`, or an empty text if no word is close."""
    near = difflib.get_close_matches(str(word), list(among), 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def describe_value(value: Json) -> str:
    """Describe a value for a message: itself if short, else its type or its beginning."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case dict():
            return "an object"
        case list():
            return "an array"
        case _:
            text = str(value) if isinstance(value, Decimal) else repr(value)
            return text if len(text) <= 60 else f"{text[:57]}..."


def structure_document(
    document: Document, into: type[T], converter: Converter, spelled: Spelling = to_camel_case
) -> tuple[T | None, list[DocumentProblem]]:
    """Structure a whole document as *into*. Returns the value and no problems, or None and all problems.

    *spelled* is the converter's spelling.
    """
    from cattrs import BaseValidationError  # noqa: PLC0415 - start-up: only reading a file needs it

    try:
        return converter.structure(document.value, into), []
    except (BaseValidationError, Mismatch) as error:
        return None, [document.locate_problem(path, message) for path, message in walk_errors(error, spelled=spelled)]


def walk_errors(
    error: BaseException, path: DocumentPath = (), spelled: Spelling = to_camel_case
) -> Iterator[PathMessage]:
    """Walk the exceptions that cattrs raised and yield each as (path, message)."""
    from cattrs import BaseValidationError, ForbiddenExtraKeysError  # noqa: PLC0415 - start-up: only reading a file needs it

    match error:
        case BaseValidationError():
            for inner in error.exceptions:
                yield from walk_errors(inner, _extend_path(path, inner, spelled), spelled)
        case ForbiddenExtraKeysError():
            known = [spelled(field.name) for field in attrs.fields(error.cl)]
            for key in sorted(error.extra_fields):
                yield (*path, key), f"unknown field {key!r}{suggest_nearest(key, known)}"
        case KeyError():
            name = str(error.args[0])
            yield path[:-1] if path and path[-1] == name else path, f"missing required field {name!r}"
        case Mismatch():
            yield (*path, *error.below), error.message
        case _:
            yield _read_validator_error(error, path, spelled)


def _extend_path(path: DocumentPath, error: BaseException, spelled: Spelling) -> DocumentPath:
    """Extend *path* by the field or index that cattrs has noted on *error*."""
    from cattrs.errors import AttributeValidationNote, IterableValidationNote  # noqa: PLC0415 - start-up: only reading a file needs it

    extended = path
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            extended = (*path, spelled(note.name))
        elif isinstance(note, IterableValidationNote):
            extended = (*path, note.index)
    return extended


def _read_validator_error(error: BaseException, path: DocumentPath, spelled: Spelling) -> PathMessage:
    """Read the message of a class's own validator, such as `'maxTurns' must be >= 1: 0`."""
    text = str(error.args[0]) if error.args else type(error).__name__
    parsed = re.match(r"(Length of )?'(\w+)' (must .*)", text, re.DOTALL)
    if parsed is None:
        return path, text
    return (*path, spelled(parsed[2])), f"{'its length ' if parsed[1] else ''}{parsed[3]}"


def make_converter(spelled: Spelling = to_camel_case) -> Converter:
    """Make a converter with this module's rules; callers register their own unions, see below."""
    from cattrs import Converter  # noqa: PLC0415 - start-up: only reading a file needs it
    from cattrs.cols import homogenous_tuple_structure_factory, mapping_structure_factory  # noqa: PLC0415 - start-up: only reading a file needs it
    from cattrs.gen import make_dict_structure_fn, override  # noqa: PLC0415 - start-up: only reading a file needs it

    converter = Converter(detailed_validation=True, forbid_extra_keys=True)
    converter.register_structure_hook(int, _make_strict_hook(lambda value: type(value) is int, "an integer"))
    converter.register_structure_hook(str, _make_strict_hook(lambda value: type(value) is str, "a string"))
    converter.register_structure_hook(bool, _make_strict_hook(lambda value: type(value) is bool, "true or false"))
    converter.register_structure_hook(float, _make_strict_hook(lambda value: type(value) in (int, float), "a number"))

    def make_tuple_hook(cl: Any, converter: Converter) -> Hook:
        return _guard_shape(homogenous_tuple_structure_factory(cl, converter), list, "an array")

    def make_mapping_hook(cl: Any, converter: Converter) -> Hook:
        return _guard_shape(mapping_structure_factory(cl, converter), dict, "an object")

    def make_class_hook(cl: Any, converter: Converter) -> Hook:
        renamed = {field.name: override(rename=spelled(field.name)) for field in attrs.fields(cl)}
        # the generator takes one keyword per field; mypy cannot match a mapping to its own keywords
        hook = make_dict_structure_fn(cl, converter, **renamed)  # type: ignore[arg-type]
        return _guard_shape(hook, dict, "an object")

    def make_union_hook(cl: Any, converter: Converter) -> Hook:
        kinds = {str(getattr(member, "type", to_kebab_case(member.__name__))): member for member in get_args(cl)}
        return make_tagged_union_hook(converter, "type", kinds, kinds.__getitem__)

    converter.register_structure_hook_factory(attrs.has, make_class_hook)
    converter.register_structure_hook_factory(_is_tuple, make_tuple_hook)
    converter.register_structure_hook_factory(_is_mapping, make_mapping_hook)
    converter.register_structure_hook_factory(_is_literal, _make_literal_hook)
    converter.register_structure_hook_factory(_is_class_union, make_union_hook)
    return converter


def make_tagged_union_hook(converter: Converter, tag: str, names: Iterable[str], find: Callable[[str], type]) -> Hook:
    """Make a hook for a tagged union: the value of the key *tag* selects the class.

    *find* returns the class of a name; it is called only with one of *names*.
    """
    known = tuple(names)

    def structure_member(value: Json, _: Any) -> Any:
        if not isinstance(value, dict):
            raise Mismatch(f"expected an object, got {describe_value(value)}")
        if tag not in value:
            raise Mismatch(f"missing required field {tag!r}: one of {', '.join(known)}")
        name = value[tag]
        if not isinstance(name, str) or name not in known:
            hint = suggest_nearest(name, known)
            raise Mismatch(f"unknown {tag} {describe_value(name)}{hint}; expected one of {', '.join(known)}", (tag,))
        rest = {key: item for key, item in value.items() if key != tag}
        return converter.structure(rest, find(name))

    return structure_member


def _make_strict_hook(fits: Callable[[Any], bool], wanted: str) -> Hook:
    def check_type(value: Json, _: Any) -> Any:
        if not fits(value):
            raise Mismatch(f"expected {wanted}, got {describe_value(value)}")
        return value

    return check_type


def _guard_shape(hook: Callable[..., Any], shape: type, wanted: str) -> Hook:
    """Refuse another JSON type before *hook* runs: cattrs would iterate over a string."""

    def structure_checked(value: Json, into: Any) -> Any:
        if not isinstance(value, shape):
            raise Mismatch(f"expected {wanted}, got {describe_value(value)}")
        return hook(value, into)

    return structure_checked


def _make_literal_hook(cl: Any) -> Hook:
    options: Mapping[tuple[type, Any], Any] = {(type(option), option): option for option in get_args(cl)}
    wanted = ", ".join(repr(option) for option in get_args(cl))

    def check_option(value: Json, _: Any) -> Any:
        if isinstance(value, (str, int)) and (type(value), value) in options:
            return value
        hint = suggest_nearest(value, [option for option in get_args(cl) if isinstance(option, str)])
        raise Mismatch(f"expected {'one of ' if len(options) > 1 else ''}{wanted}, got {describe_value(value)}{hint}")

    return check_option


def _is_literal(cl: Any) -> bool:
    origin: Any = get_origin(cl)
    return origin is Literal


def _is_tuple(cl: Any) -> bool:
    return get_origin(cl) is tuple and get_args(cl)[1:] == (...,)


def _is_mapping(cl: Any) -> bool:
    return get_origin(cl) is Mapping


def _is_class_union(cl: Any) -> bool:
    return get_origin(cl) in (Union, types.UnionType) and all(attrs.has(member) for member in get_args(cl))
