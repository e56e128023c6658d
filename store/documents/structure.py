"""Values from documents: frozen attrs classes out of JSON, with every mismatch of a file told at once.

Field names are snake_case in Python and camelCase in files, unless a reader has them spelled in another way. Types are
strict (`true` is no integer, `"30"` neither, a string is no array), unknown keys are refused. cattrs does the work and
is imported only when something is read.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin

import attrs

from store.documents.positions import Document, DocumentPath, Finding
from store.events import Json

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")
Hook = Callable[[Any, Any], Any]
Problem = tuple[DocumentPath, str]
Spelling = Callable[[str], str]
"""How files spell a field's name."""


@attrs.define(slots=False)
class Mismatch(ValueError):
    """A value is not what its place asks for. cattrs adds notes to it, so it is not frozen."""

    message: str
    below: DocumentPath = ()
    """Where inside the value."""

    def __str__(self) -> str:
        return self.message


def camel(name: str) -> str:
    """`max_wall_ms` as files spell it: `maxWallMs`."""
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


def snake(name: str) -> str:
    """The spelling of files that name fields as Python does."""
    return name


def kebab(name: str) -> str:
    """`MaxCalls` as files spell it: `max-calls`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


def suggest(word: object, among: Iterable[str]) -> str:
    """` (did you mean 'command'?)`, or nothing where nothing is near."""
    import difflib

    near = difflib.get_close_matches(str(word), list(among), 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def show(value: Json) -> str:
    """A value as a message shows it: short, and what kind of thing it is where it is long."""
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


def structure(
    document: Document, into: type[T], converter: Converter, spelled: Spelling = camel
) -> tuple[T | None, list[Finding]]:
    """Make *into* of a whole document: the value, or None and everything that keeps it from being one.

    *spelled* is the converter's.
    """
    from cattrs import BaseValidationError

    try:
        return converter.structure(document.value, into), []
    except (BaseValidationError, Mismatch) as error:
        return None, [document.finding(path, message) for path, message in problems(error, spelled=spelled)]


def problems(error: BaseException, path: DocumentPath = (), spelled: Spelling = camel) -> Iterator[Problem]:
    """Walk what cattrs raised into (path, message)."""
    from cattrs import BaseValidationError, ForbiddenExtraKeysError
    from cattrs.errors import AttributeValidationNote, IterableValidationNote

    match error:
        case BaseValidationError():
            for inner in error.exceptions:
                at = path
                for note in getattr(inner, "__notes__", ()):
                    if isinstance(note, AttributeValidationNote):
                        at = (*path, spelled(note.name))
                    elif isinstance(note, IterableValidationNote):
                        at = (*path, note.index)
                yield from problems(inner, at, spelled)
        case ForbiddenExtraKeysError():
            known = [spelled(field.name) for field in attrs.fields(error.cl)]
            for key in sorted(error.extra_fields):
                yield (*path, key), f"unknown field {key!r}{suggest(key, known)}"
        case KeyError():
            name = str(error.args[0])
            yield path[:-1] if path and path[-1] == name else path, f"missing required field {name!r}"
        case Mismatch():
            yield (*path, *error.below), error.message
        case _:
            # what a class's own validators say: "'maxTurns' must be >= 1: 0"
            text = str(error.args[0]) if error.args else type(error).__name__
            named = re.match(r"(Length of )?'(\w+)' (must .*)", text, re.DOTALL)
            if named is None:
                yield path, text
            else:
                yield (*path, spelled(named[2])), f"{'its length ' if named[1] else ''}{named[3]}"


def new_converter(spelled: Spelling = camel) -> Converter:
    """A converter with this module's rules; callers register unions of their own with `tagged`."""
    from cattrs import Converter
    from cattrs.cols import homogenous_tuple_structure_factory, mapping_structure_factory
    from cattrs.gen import make_dict_structure_fn, override

    converter = Converter(detailed_validation=True, forbid_extra_keys=True)
    converter.register_structure_hook(int, _strict(lambda value: type(value) is int, "an integer"))
    converter.register_structure_hook(str, _strict(lambda value: type(value) is str, "a string"))
    converter.register_structure_hook(bool, _strict(lambda value: type(value) is bool, "true or false"))
    converter.register_structure_hook(float, _strict(lambda value: type(value) in (int, float), "a number"))

    def of_tuple(cl: Any, converter: Converter) -> Hook:
        return _guarded(homogenous_tuple_structure_factory(cl, converter), list, "an array")

    def of_mapping(cl: Any, converter: Converter) -> Hook:
        return _guarded(mapping_structure_factory(cl, converter), dict, "an object")

    def of_class(cl: Any, converter: Converter) -> Hook:
        renamed = {field.name: override(rename=spelled(field.name)) for field in attrs.fields(cl)}
        # the generator takes one keyword per field; mypy cannot match a mapping to its own keywords
        hook = make_dict_structure_fn(cl, converter, **renamed)  # type: ignore[arg-type]
        return _guarded(hook, dict, "an object")

    def of_union(cl: Any, converter: Converter) -> Hook:
        kinds = {str(getattr(member, "type", kebab(member.__name__))): member for member in get_args(cl)}
        return tagged(converter, "type", kinds, kinds.__getitem__)

    converter.register_structure_hook_factory(attrs.has, of_class)
    converter.register_structure_hook_factory(_is_tuple, of_tuple)
    converter.register_structure_hook_factory(_is_mapping, of_mapping)
    converter.register_structure_hook_factory(_is_literal, _literal)
    converter.register_structure_hook_factory(_is_class_union, of_union)
    return converter


def tagged(converter: Converter, tag: str, names: Iterable[str], find: Callable[[str], type]) -> Hook:
    """A hook for a closed union whose members a key tells apart.

    *find* gives the class for a name; it is asked only about *names*.
    """
    known = tuple(names)

    def hook(value: Json, _: Any) -> Any:
        if not isinstance(value, dict):
            raise Mismatch(f"expected an object, got {show(value)}")
        if tag not in value:
            raise Mismatch(f"missing required field {tag!r}: one of {', '.join(known)}")
        name = value[tag]
        if not isinstance(name, str) or name not in known:
            hint = suggest(name, known)
            raise Mismatch(f"unknown {tag} {show(name)}{hint}; expected one of {', '.join(known)}", (tag,))
        rest = {key: item for key, item in value.items() if key != tag}
        return converter.structure(rest, find(name))

    return hook


def _strict(fits: Callable[[Any], bool], wanted: str) -> Hook:
    def hook(value: Json, _: Any) -> Any:
        if not fits(value):
            raise Mismatch(f"expected {wanted}, got {show(value)}")
        return value

    return hook


def _guarded(hook: Callable[..., Any], shape: type, wanted: str) -> Hook:
    """Refuse another JSON type before *hook* tries to make sense of it: cattrs would iterate a string."""

    def guarded(value: Json, into: Any) -> Any:
        if not isinstance(value, shape):
            raise Mismatch(f"expected {wanted}, got {show(value)}")
        return hook(value, into)

    return guarded


def _literal(cl: Any) -> Hook:
    options: Mapping[tuple[type, Any], Any] = {(type(option), option): option for option in get_args(cl)}
    wanted = ", ".join(repr(option) for option in get_args(cl))

    def hook(value: Json, _: Any) -> Any:
        if isinstance(value, (str, int)) and (type(value), value) in options:
            return value
        hint = suggest(value, [option for option in get_args(cl) if isinstance(option, str)])
        raise Mismatch(f"expected {'one of ' if len(options) > 1 else ''}{wanted}, got {show(value)}{hint}")

    return hook


def _is_literal(cl: Any) -> bool:
    origin: Any = get_origin(cl)
    return origin is Literal


def _is_tuple(cl: Any) -> bool:
    return get_origin(cl) is tuple and get_args(cl)[1:] == (...,)


def _is_mapping(cl: Any) -> bool:
    return get_origin(cl) is Mapping


def _is_class_union(cl: Any) -> bool:
    return get_origin(cl) in (Union, types.UnionType) and all(attrs.has(member) for member in get_args(cl))
