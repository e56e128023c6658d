"""A strict JSON parser that keeps the source position of every value, for messages such as `suite.json:8:64: ...`.

Every package reads users' files with this. A document is plain data plus a map from paths to offsets, independent of
its syntax; `yaml.py` makes the same of YAML.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NoReturn

import attrs

from store.errors import UsageError
from store.events import Json

DocumentPath = tuple[str | int, ...]
"""The path of a value: keys and indices from the root."""

MAX_DEPTH = 100
MAX_BYTES = 32 * 1024 * 1024
MAX_NUMBER = 400
"""Largest number of characters of a number; longer ones are slow to convert."""

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_PLAIN = re.compile(r'"([^"\\\x00-\x1f]*)"')
_WORD = re.compile(r"[^\s,:\[\]{}\"]+")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_LITERALS: Mapping[str, Json] = {"true": True, "false": False, "null": None}
_SUGGESTED = {"True": "true", "False": "false", "None": "null", "undefined": "null"}


@attrs.frozen(kw_only=True, order=True)
class Finding:
    """A problem at one position of a document. Problems sort by position."""

    line: int
    """Counts from 1."""
    column: int
    """Counts from 1, in characters."""
    path: str
    """Such as `tasks[1].budget.maxTurns`; empty for a syntax error."""
    message: str
    excerpt: str = ""
    """Lines to show below the message, such as a part of a text with a caret."""


@attrs.frozen(kw_only=True)
class Document:
    """A parsed file: its value, and the source position of every value in it."""

    name: str
    """The file's name in messages."""
    value: Json
    raw: bytes
    offsets: Mapping[DocumentPath, int]
    """Offset of each value, or of its key if it has one."""
    starts: tuple[int, ...]
    """Offsets at which lines begin."""

    def place(self, path: DocumentPath) -> tuple[int, int]:
        """Return line and column of *path*, or of its nearest existing parent if the document has no such value."""
        while path and path not in self.offsets:
            path = path[:-1]
        return self.position(self.offsets.get(path, 0))

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset; both count from 1."""
        return _place(self.starts, offset)

    def finding(self, path: DocumentPath, message: str) -> Finding:
        """Make a problem with *message* at the position of *path*."""
        line, column = self.place(path)
        return Finding(line=line, column=column, path=spell(path), message=message)

    def refusal(self, findings: Iterable[Finding]) -> UsageError:
        """Make one error that lists all *findings*, in the order of the file."""
        return UsageError("\n".join(tell(self.name, finding) for finding in sorted(set(findings))))


def tell(name: str, finding: Finding) -> str:
    """Format a problem: `suite.json:8:64: tasks[1].budget.maxTurns: expected an integer, got '30'`.

    The message is one line with unprintable characters escaped; an excerpt follows on lines of its own.
    """
    where = f"{finding.path}: " if finding.path else ""
    text = f"{name}:{finding.line}:{finding.column}: {where}{finding.message}"
    return "\n".join(_printable(line) for line in (text, *finding.excerpt.splitlines()))


def spell(path: DocumentPath) -> str:
    """Format a path for a message: `tasks[1].budget.maxTurns`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(r"[A-Za-z_$][\w$-]*", step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step)[:60]}]"
    return text or "(document)"


def read_json(file: Path, *, name: str | None = None, surrogates: bool = False) -> Document:
    """Read a strict JSON file. Messages name it *name*, by default its path.

    Raises:
        UsageError: it cannot be read, is larger than 32 MiB, or is not strict JSON; see `parse_json`.
    """
    name = name or str(file)
    return parse_json(read_raw(file, name), name=name, surrogates=surrogates)


def read_raw(file: Path, name: str) -> bytes:
    """Read the bytes of a file, at most one more than 32 MiB.

    Raises:
        UsageError: the file cannot be read, or is not a regular file.
    """
    try:
        if file.exists() and not file.is_file():
            raise UsageError(f"{name}: not a file")  # opening a pipe would wait for a writer
        with file.open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{name}: cannot be read: {reason}") from error


def parse_json(raw: bytes, *, name: str, surrogates: bool = False) -> Document:
    """Parse strict JSON: no duplicate keys, no NaN or Infinity, no comments, no trailing commas, depth at most 100.

    Lone surrogates in strings are refused unless *surrogates* is true, since most destinations cannot hold them.

    Raises:
        UsageError: with line and column.
    """
    text = decoded(raw, name)
    starts = line_starts(text)
    parser = _Parser(text, surrogates=surrogates)
    try:
        value = parser.document()
    except Refused as refused:
        raise refused.told(name, starts) from None
    return Document(name=name, value=value, raw=raw, offsets=parser.offsets, starts=starts)


def decoded(raw: bytes, name: str) -> str:
    """Decode a file's bytes as UTF-8, without a byte order mark.

    Raises:
        UsageError: the file is larger than 32 MiB, or not UTF-8.
    """
    if len(raw) > MAX_BYTES:
        raise UsageError(f"{name}: larger than {MAX_BYTES // 1024 // 1024} MiB")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8-sig", errors="replace")
        line, column = _place(line_starts(before), len(before))
        raise UsageError(f"{name}:{line}:{column}: not UTF-8 (byte 0x{error.object[error.start]:02x})") from error


def line_starts(text: str) -> tuple[int, ...]:
    """Find the offsets at which lines begin."""
    return (0, *(match.end() for match in re.finditer("\n", text)))


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def _place(starts: tuple[int, ...], offset: int) -> tuple[int, int]:
    line = bisect.bisect_right(starts, offset)
    return line, offset - starts[line - 1] + 1


@attrs.define(slots=False)
class Refused(Exception):
    """A syntax error at an offset of a document."""

    message: str
    offset: int
    first: int | None = None
    """Offset of the first of two equal keys."""

    def told(self, name: str, starts: tuple[int, ...]) -> UsageError:
        """Convert into the error for the user, with line and column."""
        line, column = _place(starts, self.offset)
        first = f" (first at line {_place(starts, self.first)[0]})" if self.first is not None else ""
        return UsageError(tell(name, Finding(line=line, column=column, path="", message=self.message + first)))


class _Parser:
    """A recursive descent parser over one text; every method takes an offset and returns the offset after its match."""

    def __init__(self, text: str, *, surrogates: bool) -> None:
        self.text = text
        self.surrogates = surrogates
        self.offsets: dict[DocumentPath, int] = {}
        self.escaped = json.JSONDecoder()

    def document(self) -> Json:
        value, end = self.value(self.skip(0), (), 0)
        end = self.skip(end)
        if end != len(self.text):
            self.refuse("expected the end of the document", end)
        return value

    def refuse(self, message: str, offset: int, first: int | None = None) -> NoReturn:
        raise Refused(message, offset, first)

    def skip(self, offset: int) -> int:
        match = _SPACE.match(self.text, offset)
        assert match is not None  # the pattern also matches the empty string
        return match.end()

    def value(self, offset: int, path: DocumentPath, depth: int) -> tuple[Json, int]:
        if depth > MAX_DEPTH:
            self.refuse(f"nested deeper than {MAX_DEPTH}", offset)
        self.offsets.setdefault(path, offset)  # the position of a key, set earlier, is the better one
        match self.text[offset : offset + 1]:
            case '"':
                return self.string(offset)
            case "{":
                return self.members(offset, path, depth)
            case "[":
                return self.items(offset, path, depth)
            case _:
                return self.scalar(offset)

    def string(self, offset: int) -> tuple[str, int]:
        plain = _PLAIN.match(self.text, offset)
        if plain is not None:
            return plain[1], plain.end()
        try:
            value, end = self.escaped.raw_decode(self.text, offset)
        except json.JSONDecodeError as error:
            # the decoder's messages are good ("Unterminated string", "Invalid \\escape"), but not the offsets in them
            message = error.msg.removesuffix(" at").replace(" starting", "")
            self.refuse(message[:1].lower() + message[1:], error.pos)
        if not self.surrogates and _SURROGATE.search(value):
            self.refuse("a lone surrogate (half of a \\ud8..\\ud... pair) is not text", offset)
        return value, end

    def scalar(self, offset: int) -> tuple[Json, int]:
        word = _WORD.match(self.text, offset)
        if word is None:
            found = repr(self.text[offset]) if offset < len(self.text) else "the end of the file"
            self.refuse(f"expected a value, got {found}", offset)
        if word[0] in _LITERALS:
            return _LITERALS[word[0]], word.end()
        number = _NUMBER.fullmatch(word[0])
        if number is None:
            meant = _SUGGESTED.get(word[0])
            hint = f" (did you mean {meant}?)" if meant else " (JSON has no comments)" if word[0][0] in "/#" else ""
            self.refuse(f"expected a value, got {word[0][:40]}{hint}", offset)
        if len(word[0]) > MAX_NUMBER:
            self.refuse(f"expected at most {MAX_NUMBER} characters of a number", offset)
        if not (number[1] or number[2]):
            return int(word[0]), word.end()
        value = float(word[0])
        if value in (float("inf"), float("-inf")):
            self.refuse(f"{word[0][:40]} is too large for a number", offset)
        return value, word.end()

    def members(self, offset: int, path: DocumentPath, depth: int) -> tuple[Json, int]:
        members: dict[str, Json] = {}
        for start in self.separated(offset, "}"):
            if self.text[start : start + 1] != '"':
                self.refuse('expected a "key"', start)
            key, end = self.string(start)
            at = (*path, key)
            if key in members:
                self.refuse(f"duplicate key {key!r}", start, self.offsets[at])
            self.offsets[at] = start
            end = self.skip(end)
            if self.text[end : end + 1] != ":":
                self.refuse("expected ':'", end)
            members[key], self.end = self.value(self.skip(end + 1), at, depth + 1)
        return members, self.end

    def items(self, offset: int, path: DocumentPath, depth: int) -> tuple[Json, int]:
        items: list[Json] = []
        for start in self.separated(offset, "]"):
            item, self.end = self.value(start, (*path, len(items)), depth + 1)
            items.append(item)
        return items, self.end

    end = 0
    """End offset of the last element read: callers of `separated` set it for each element."""

    def separated(self, offset: int, closing: str) -> Iterator[int]:
        """Yield the offset of each element of a list or object; then set `end` behind the closing bracket."""
        start = self.skip(offset + 1)
        if self.text[start : start + 1] == closing:
            self.end = start + 1
            return
        while True:
            yield start
            after = self.skip(self.end)
            match self.text[after : after + 1]:
                case ",":
                    start = self.skip(after + 1)
                    if self.text[start : start + 1] == closing:
                        self.refuse("trailing comma", after)
                case character if character == closing:
                    self.end = after + 1
                    return
                case "":
                    self.refuse(f"expected ',' or '{closing}', got the end of the file", after)
                case character:
                    self.refuse(f"expected ',' or '{closing}', got {character!r}", after)
