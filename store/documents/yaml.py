"""A strict YAML parser that keeps source positions; makes the same `Document` as `positions.py` does of JSON.

The core schema of YAML 1.2 (`yes`, `no`, `12:30` and `2026-11-30` are text, `0777` is 777), one document, unique text
keys. Refused because they surprise: merge keys, tags, NaN and infinity, recursive aliases, and aliases that expand to
more than 200,000 values. PyYAML (libyaml) produces the events and is imported only when a file is read; this module
decides their meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn

import attrs

from store.documents.positions import (
    MAX_DEPTH,
    MAX_NUMBER_CHARACTERS,
    Document,
    DocumentPath,
    DocumentProblem,
    DocumentSyntaxError,
    decode_text,
    find_line_starts,
    format_path,
    read_raw,
)
from store.events import Json

MAX_NODES = 200_000
"""Largest number of values and keys in a document, each alias counted as a copy."""

NULLS = frozenset({"", "~", "null", "Null", "NULL"})
BOOLEANS: Mapping[str, bool] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}

_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED_INTEGER = re.compile(r"0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_TEXT = "tag:yaml.org,2002:str"
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_UNSAFE_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Control characters, and characters that only some parsers take for a line break."""


@attrs.frozen(kw_only=True)
class YamlDocument(Document):
    """A YAML document, which also keeps the source spelling of its scalars."""

    text: str
    """The text of the file."""
    scalars: Mapping[DocumentPath, tuple[int, int]]
    """Start and end offset of each scalar."""

    def locate_problem_in_text(
        self, path: DocumentPath, message: str, *, line: int, column: int, excerpt: str
    ) -> DocumentProblem:
        """Make a problem with *message* at a *line* and *column* (from 1) inside the text value at *path*.

        Its position is that part of the text if the file contains the line verbatim, else the position of *path*.
        """
        finding = self.locate_problem(path, message)
        offset = self._find_written_line(path, line)
        if offset is not None:
            at_line, at_column = self.locate_offset(offset + column - 1)
            finding = DocumentProblem(line=at_line, column=at_column, path=format_path(path), message=message)
        return attrs.evolve(finding, excerpt=excerpt)

    def _find_written_line(self, path: DocumentPath, line: int) -> int | None:
        """Find the offset at which the file contains a *line* of the text at *path* verbatim; None if it does not."""
        start, end = self.scalars.get(path, (0, 0))
        value = self._look_up(path)
        lines = value.split("\n") if isinstance(value, str) else []
        if not 1 <= line <= len(lines) or not lines[line - 1]:
            return None
        written = self.text[start:end].split("\n")
        # a block scalar has a header line; other scalars are verbatim only if they are on one line
        block = written[0][:1] in ("|", ">")
        row = line if block else 0
        if row >= len(written) or (not block and len(written) > 1):
            return None
        column = written[row].find(lines[line - 1])
        before = sum(len(other) + 1 for other in written[:row])
        return start + before + column if column >= 0 else None

    def _look_up(self, path: DocumentPath) -> Json:
        value = self.value
        for step in path:
            value = value[step]
        return value


def read_yaml(file: Path, *, name: str | None = None, decimals: bool = False) -> YamlDocument:
    """Read a strict YAML file. Messages name it *name*, by default its path.

    Raises:
        UsageError: it cannot be read, is larger than 32 MiB, or is not strict YAML; see `parse_yaml`.
    """
    name = name or str(file)
    return parse_yaml(read_raw(file, name), name=name, decimals=decimals)


def parse_yaml(raw: bytes, *, name: str, decimals: bool = False) -> YamlDocument:
    """Parse strict YAML; an empty file is null. With *decimals*, numbers with a point or an exponent are `Decimal`s.

    Raises:
        UsageError: with line and column.
    """
    text = decode_text(raw, name)
    starts = find_line_starts(text)
    try:
        builder = _Builder(text, decimals=decimals)
        value = builder.build_document()
    except DocumentSyntaxError as refused:
        raise refused.to_usage_error(name, starts) from None
    return YamlDocument(
        name=name,
        value=value,
        raw=raw,
        offsets=builder.offsets,
        starts=starts,
        text=text,
        scalars=builder.scalars,
    )


class _Builder:
    """Builds a value from parser events; methods take the index of an event and return the index after the value."""

    def __init__(self, text: str, *, decimals: bool) -> None:
        import yaml  # noqa: PLC0415 - start-up: only YAML files need it

        self.yaml = yaml
        self.text = text
        self.decimals = decimals
        self.offsets: dict[DocumentPath, int] = {}
        self.scalars: dict[DocumentPath, tuple[int, int]] = {}
        self.aliased: dict[int, int] = {}
        """Index of an alias event -> index of the event that it refers to."""
        self.open: set[int] = set()
        """Indices of the objects and arrays under construction."""
        self.nodes = 0
        self.events = self.read_events()

    def refuse_at(self, message: str, offset: int, first: int | None = None) -> NoReturn:
        raise DocumentSyntaxError(message, offset, first)

    def read_events(self) -> list[Any]:
        """Read all events of the document, without recursion, so that nesting cannot exhaust the stack."""
        yaml = self.yaml
        if unfit := _UNSAFE_CHARACTERS.search(self.text):
            self.refuse_at(f'write the character U+{ord(unfit[0]):04X} as an escape, in "..."', unfit.start())
        loader = (yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader)(self.text)
        events: list[Any] = []
        anchors: dict[str, int] = {}
        documents = nodes = 0
        try:
            while (event := loader.get_event()) is not None:
                documents += isinstance(event, yaml.DocumentStartEvent)
                if documents > 1:
                    self.refuse_at("a second document begins here; expected one per file", event.start_mark.index)
                if isinstance(event, yaml.NodeEvent):
                    self.resolve_anchor(event, len(events), anchors)
                    events.append(event)
                    nodes += 1
                    if nodes > MAX_NODES:
                        self.refuse_at(f"more than {MAX_NODES:,} values and keys", event.start_mark.index)
                elif isinstance(event, yaml.CollectionEndEvent):
                    events.append(event)
        except yaml.MarkedYAMLError as error:
            self.refuse_at(*self.explain_error(error))
        except yaml.YAMLError as error:
            self.refuse_at(str(error).partition("\n")[0], 0)
        finally:
            loader.dispose()
        return events

    def resolve_anchor(self, event: Any, index: int, anchors: dict[str, int]) -> None:
        """Note the anchor that a node defines in *anchors*, or the node that an alias refers to."""
        if event.anchor is None:
            return
        offset = event.start_mark.index
        if not isinstance(event, self.yaml.AliasEvent):
            anchors[event.anchor] = index
        elif event.anchor in anchors:
            self.aliased[index] = anchors[event.anchor]
        else:
            self.refuse_at(f"no anchor &{event.anchor} is defined before this alias", offset)

    def explain_error(self, error: Any) -> tuple[str, int]:
        """Explain a parser error: its message with the usual cause, and its offset."""
        mark = error.problem_mark or error.context_mark
        offset = mark.index if mark is not None else 0
        message = error.problem or "not valid YAML"
        began = error.context_mark.index if error.context_mark is not None else offset
        if error.context and began < offset:
            line = self.text.count("\n", 0, began) + 1
            message += f" ({error.context}, which begins on line {line})"
        here = self.text[offset : offset + 1]
        if here == "\t":
            message += " (a tab; indent with spaces)"
        elif here in {"@", "`", "%"}:
            message += f" (quote a text that begins with {here})"
        elif message.startswith("mapping values are not allowed"):
            message += " (quote a text that contains ': ')"
        return message, offset

    def build_document(self) -> Json:
        return self.build_value(0, (), 0)[0] if self.events else None

    def build_value(self, index: int, path: DocumentPath, depth: int) -> tuple[Json, int]:
        yaml, event = self.yaml, self.events[index]
        offset = event.start_mark.index
        if depth > MAX_DEPTH:
            self.refuse_at(f"nested deeper than {MAX_DEPTH}", offset)
        self.offsets.setdefault(path, offset)  # the position of a key, set earlier, is the better one
        if isinstance(event, yaml.AliasEvent):
            return self.build_value(self.aliased[index], path, depth)[0], index + 1
        self.count_node(offset)
        if isinstance(event, yaml.ScalarEvent):
            self.scalars[path] = offset, event.end_mark.index
            return self.read_scalar(event), index + 1
        if index in self.open:
            self.refuse_at("an alias inside the value that it refers to", offset)
        self.open.add(index)
        try:
            if isinstance(event, yaml.SequenceStartEvent):
                self.refuse_tag(event, "tag:yaml.org,2002:seq")
                return self.build_items(index + 1, path, depth)
            self.refuse_tag(event, "tag:yaml.org,2002:map")
            return self.build_members(index + 1, path, depth)
        finally:
            self.open.discard(index)

    def count_node(self, offset: int) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            self.refuse_at(f"more than {MAX_NODES:,} values and keys, counting each alias as a copy", offset)

    def refuse_tag(self, event: Any, harmless: str) -> None:
        if event.tag not in (None, harmless):
            self.refuse_at(f"tags such as {event.tag[:60]} are not supported", event.start_mark.index)

    def build_items(self, index: int, path: DocumentPath, depth: int) -> tuple[Json, int]:
        items: list[Json] = []
        while not isinstance(self.events[index], self.yaml.CollectionEndEvent):
            item, index = self.build_value(index, (*path, len(items)), depth + 1)
            items.append(item)
        return items, index + 1

    def build_members(self, index: int, path: DocumentPath, depth: int) -> tuple[Json, int]:
        members: dict[str, Json] = {}
        while not isinstance(event := self.events[index], self.yaml.CollectionEndEvent):
            key, offset = self.read_key(event), event.start_mark.index
            at = (*path, key)
            if key in members:
                self.refuse_at(f"duplicate key {key!r}", offset, self.offsets[at])
            self.offsets[at] = offset
            members[key], index = self.build_value(index + 1, at, depth + 1)
        return members, index + 1

    def read_key(self, event: Any) -> str:
        offset = event.start_mark.index
        self.count_node(offset)
        if not isinstance(event, self.yaml.ScalarEvent):
            actual = "an alias" if isinstance(event, self.yaml.AliasEvent) else "an object or an array"
            self.refuse_at(f"expected a key, got {actual} (quote a text that begins with {{, [ or *)", offset)
        key = self.read_scalar(event)
        if event.style in (None, "") and event.value == "<<":
            self.refuse_at("merge keys (<<) are not supported; write the keys out", offset)
        if not isinstance(key, str):
            self.refuse_at(f'keys are text: write "{event.value[:60]}" in quotes', offset)
        return key

    def read_scalar(self, event: Any) -> Json:
        self.refuse_tag(event, _TEXT)
        text: str = event.value
        if not text.isascii() and _SURROGATE.search(text):
            self.refuse_at("a lone surrogate (half of a \\ud8..\\ud... pair) is not text", event.start_mark.index)
        if event.style not in (None, "") or event.tag == _TEXT:
            return text
        if text in NULLS:
            return None
        if text in BOOLEANS:
            return BOOLEANS[text]
        return self.read_number(text, event.start_mark.index) if text[0] in "+-.0123456789" else text

    def read_number(self, text: str, offset: int) -> Json:
        """Read a scalar that begins like a number: a number, or else text."""
        if _NOT_FINITE.fullmatch(text):
            self.refuse_at(f"{text} is not a JSON number (quote it if it is text)", offset)
        if not (_FLOAT.fullmatch(text) or _BASED_INTEGER.fullmatch(text)):
            return text
        if len(text) > MAX_NUMBER_CHARACTERS:
            self.refuse_at(f"expected at most {MAX_NUMBER_CHARACTERS} characters of a number", offset)
        if _BASED_INTEGER.fullmatch(text):
            return int(text, 0)
        if _INTEGER.fullmatch(text):
            return int(text)
        value = float(text)
        if value in (float("inf"), float("-inf")):
            self.refuse_at(f"{text[:40]} is too large for a number", offset)
        return Decimal(text) if self.decimals else value
