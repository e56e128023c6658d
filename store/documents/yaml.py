"""Strict YAML in, with the place of every value: the same `Document` that `positions` makes of JSON.

YAML as it is meant in files that people write: the core schema of YAML 1.2 (`yes`, `no`, `12:30` and `2026-11-30` are
text, `0777` is 777), one document, keys that are text and stand once. Refused is what only surprises: merge keys, tags,
NaN and infinity, aliases that multiply into more than 200,000 values or lead to themselves. PyYAML (libyaml) tells the
events apart and is imported only when something is read; what they mean is decided here.
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
    MAX_NUMBER,
    Document,
    DocumentPath,
    Finding,
    Refused,
    decoded,
    line_starts,
    read_raw,
    spell,
)
from store.events import Json

MAX_NODES = 200_000
"""Values and keys of a document, each alias counted with all that it stands for."""

NULLS = frozenset({"", "~", "null", "Null", "NULL"})
BOOLEANS: Mapping[str, bool] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}

_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_TEXT = "tag:yaml.org,2002:str"
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Control characters, and what some readers take for the end of a line and others do not."""


@attrs.frozen(kw_only=True)
class YamlDocument(Document):
    """A document that knows how its texts are written."""

    text: str
    """The file's."""
    scalars: Mapping[DocumentPath, tuple[int, int]]
    """Offsets at which each value that is no object and no array begins and ends."""

    def finding_in(self, path: DocumentPath, message: str, *, line: int, column: int, excerpt: str) -> Finding:
        """Say *message* about a part of the text at *path*: its *line* and *column*, which count from 1.

        The finding stands at that part, where the text's line is written in the file as it is.
        """
        finding = self.finding(path, message)
        offset = self._written(path, line)
        if offset is not None:
            at_line, at_column = self.position(offset + column - 1)
            finding = Finding(line=at_line, column=at_column, path=spell(path), message=message)
        return attrs.evolve(finding, excerpt=excerpt)

    def _written(self, path: DocumentPath, line: int) -> int | None:
        """The offset at which a *line* of the text at *path* is written as it is; None where it is not."""
        start, end = self.scalars.get(path, (0, 0))
        value = self._at(path)
        lines = value.split("\n") if isinstance(value, str) else []
        if not 1 <= line <= len(lines) or not lines[line - 1]:
            return None
        written = self.text[start:end].split("\n")
        # a block has a line before its text; elsewhere only a text on one line is written as it is
        block = written[0][:1] in ("|", ">")
        row = line if block else 0
        if row >= len(written) or (not block and len(written) > 1):
            return None
        found = written[row].find(lines[line - 1])
        before = sum(len(other) + 1 for other in written[:row])
        return start + before + found if found >= 0 else None

    def _at(self, path: DocumentPath) -> Json:
        value = self.value
        for step in path:
            value = value[step]
        return value


def read_yaml(file: Path, *, name: str | None = None, decimals: bool = False) -> YamlDocument:
    """Read a YAML file strictly. Messages call it *name*, or its path.

    Raises:
        UsageError: it cannot be read, is larger than 32 MiB, or is not as this module has it; see `parse_yaml`.
    """
    name = name or str(file)
    return parse_yaml(read_raw(file, name), name=name, decimals=decimals)


def parse_yaml(raw: bytes, *, name: str, decimals: bool = False) -> YamlDocument:
    """Parse strict YAML; an empty file is null. With *decimals*, numbers with a point or an exponent are `Decimal`s.

    Raises:
        UsageError: with line and column.
    """
    text = decoded(raw, name)
    starts = line_starts(text)
    try:
        builder = _Builder(text, decimals=decimals)
        value = builder.document()
    except Refused as refused:
        raise refused.told(name, starts) from None
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
    """Makes a value of a text's events; every method takes the index of an event and returns the one after it."""

    def __init__(self, text: str, *, decimals: bool) -> None:
        import yaml

        self.yaml = yaml
        self.text = text
        self.decimals = decimals
        self.offsets: dict[DocumentPath, int] = {}
        self.scalars: dict[DocumentPath, tuple[int, int]] = {}
        self.aliased: dict[int, int] = {}
        """Of each alias's event the event that it stands for."""
        self.open: set[int] = set()
        """Objects and arrays that are being built."""
        self.nodes = 0
        self.events = self.read()

    def refuse(self, message: str, offset: int, first: int | None = None) -> NoReturn:
        raise Refused(message, offset, first)

    def read(self) -> list[Any]:
        """All events of the document's root. Nesting is not followed here, so that no text goes too deep."""
        yaml = self.yaml
        if unfit := _UNFIT.search(self.text):
            self.refuse(f'the character U+{ord(unfit[0]):04X} has to be written as an escape, in "..."', unfit.start())
        loader = (yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader)(self.text)
        events: list[Any] = []
        anchors: dict[str, int] = {}
        documents = nodes = 0
        try:
            while (event := loader.get_event()) is not None:
                if isinstance(event, yaml.DocumentStartEvent):
                    documents += 1
                    if documents > 1:
                        self.refuse("a second document begins here; a file holds one", event.start_mark.index)
                if not isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
                    continue
                if isinstance(event, yaml.AliasEvent):
                    if event.anchor not in anchors:
                        self.refuse(f"there is no anchor &{event.anchor} before it", event.start_mark.index)
                    self.aliased[len(events)] = anchors[event.anchor]
                elif isinstance(event, yaml.NodeEvent) and event.anchor is not None:
                    anchors[event.anchor] = len(events)
                events.append(event)
                nodes += isinstance(event, yaml.NodeEvent)
                if nodes > MAX_NODES:
                    self.refuse(f"more than {MAX_NODES:,} values and keys", event.start_mark.index)
        except yaml.MarkedYAMLError as error:
            self.refuse(*self.explained(error))
        except yaml.YAMLError as error:
            self.refuse(str(error).partition("\n")[0], 0)
        finally:
            loader.dispose()
        return events

    def explained(self, error: Any) -> tuple[str, int]:
        """What the parser has to say, with what is usually meant."""
        mark = error.problem_mark or error.context_mark
        offset = mark.index if mark is not None else 0
        message = error.problem or "no YAML"
        began = error.context_mark.index if error.context_mark is not None else offset
        if error.context and began < offset:
            line = self.text.count("\n", 0, began) + 1
            message += f" ({error.context}, which begins in line {line})"
        here = self.text[offset : offset + 1]
        if here == "\t":
            message += " (a tab; YAML indents with spaces)"
        elif here in {"@", "`", "%"}:
            message += f" (a text that begins with {here} is quoted)"
        elif message.startswith("mapping values are not allowed"):
            message += " (a text that holds ': ' is quoted)"
        return message, offset

    def document(self) -> Json:
        return self.value(0, (), 0)[0] if self.events else None

    def value(self, index: int, path: DocumentPath, depth: int) -> tuple[Json, int]:
        yaml, event = self.yaml, self.events[index]
        offset = event.start_mark.index
        if depth > MAX_DEPTH:
            self.refuse(f"nested deeper than {MAX_DEPTH}", offset)
        self.offsets.setdefault(path, offset)  # a key has come first, and its place is the better one
        if isinstance(event, yaml.AliasEvent):
            return self.value(self.aliased[index], path, depth)[0], index + 1
        self.counted(offset)
        if isinstance(event, yaml.ScalarEvent):
            self.scalars[path] = offset, event.end_mark.index
            return self.scalar(event), index + 1
        if index in self.open:
            self.refuse("an alias within what it stands for", offset)
        self.open.add(index)
        try:
            if isinstance(event, yaml.SequenceStartEvent):
                self.untagged(event, "tag:yaml.org,2002:seq")
                return self.items(index + 1, path, depth)
            self.untagged(event, "tag:yaml.org,2002:map")
            return self.members(index + 1, path, depth)
        finally:
            self.open.discard(index)

    def counted(self, offset: int) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            self.refuse(f"more than {MAX_NODES:,} values and keys, aliases counted with what they stand for", offset)

    def untagged(self, event: Any, harmless: str) -> None:
        if event.tag not in (None, harmless):
            self.refuse(f"tags such as {event.tag[:60]} are not supported", event.start_mark.index)

    def items(self, index: int, path: DocumentPath, depth: int) -> tuple[Json, int]:
        items: list[Json] = []
        while not isinstance(self.events[index], self.yaml.CollectionEndEvent):
            item, index = self.value(index, (*path, len(items)), depth + 1)
            items.append(item)
        return items, index + 1

    def members(self, index: int, path: DocumentPath, depth: int) -> tuple[Json, int]:
        members: dict[str, Json] = {}
        while not isinstance(event := self.events[index], self.yaml.CollectionEndEvent):
            key, offset = self.key(event), event.start_mark.index
            at = (*path, key)
            if key in members:
                self.refuse(f"duplicate key {key!r}", offset, self.offsets[at])
            self.offsets[at] = offset
            members[key], index = self.value(index + 1, at, depth + 1)
        return members, index + 1

    def key(self, event: Any) -> str:
        offset = event.start_mark.index
        self.counted(offset)
        if not isinstance(event, self.yaml.ScalarEvent):
            what = "an alias" if isinstance(event, self.yaml.AliasEvent) else "an object or an array"
            self.refuse(f"expected a key, got {what} (a text that begins with {{, [ or * is quoted)", offset)
        key = self.scalar(event)
        if event.style in (None, "") and event.value == "<<":
            self.refuse("merge keys (<<) are not supported; write the keys out", offset)
        if not isinstance(key, str):
            self.refuse(f'keys are text: write "{event.value[:60]}" in quotes', offset)
        return key

    def scalar(self, event: Any) -> Json:
        self.untagged(event, _TEXT)
        text: str = event.value
        if not text.isascii() and _SURROGATE.search(text):
            self.refuse("a lone surrogate (half of a \\ud8..\\ud... pair) is no text", event.start_mark.index)
        if event.style not in (None, "") or event.tag == _TEXT:
            return text
        if text in NULLS:
            return None
        if text in BOOLEANS:
            return BOOLEANS[text]
        return self.number(text, event.start_mark.index) if text[0] in "+-.0123456789" else text

    def number(self, text: str, offset: int) -> Json:
        """What begins as a number does: one, or text."""
        if _NOT_FINITE.fullmatch(text):
            self.refuse(f"{text} is no number that JSON has (quote it where it is text)", offset)
        if not (_FLOAT.fullmatch(text) or _BASED.fullmatch(text)):
            return text
        if len(text) > MAX_NUMBER:
            self.refuse(f"a number of more than {MAX_NUMBER} characters", offset)
        if _BASED.fullmatch(text):
            return int(text, 0)
        if _INTEGER.fullmatch(text):
            return int(text)
        value = float(text)
        if value in (float("inf"), float("-inf")):
            self.refuse(f"{text[:40]} is too large for a number", offset)
        return Decimal(text) if self.decimals else value
