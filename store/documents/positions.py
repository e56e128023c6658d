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
MAX_NUMBER_CHARACTERS = 400
"""Largest number of characters of a number; longer ones are slow to convert."""

_SPACE_RUN = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_PLAIN_STRING = re.compile(r'"([^"\\\x00-\x1f]*)"')
_WORD = re.compile(r"[^\s,:\[\]{}\"]+")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_LITERALS: Mapping[str, Json] = {"true": True, "false": False, "null": None}
_MEANT_LITERALS = {"True": "true", "False": "false", "None": "null", "undefined": "null"}


@attrs.frozen(kw_only=True, order=True)
class DocumentProblem:
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

    def locate_path(self, path: DocumentPath) -> tuple[int, int]:
        """Return line and column of *path*, or of its nearest existing parent if the document has no such value."""
        while path and path not in self.offsets:
            path = path[:-1]
        return self.locate_offset(self.offsets.get(path, 0))

    def locate_offset(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset; both count from 1."""
        return _locate_offset(self.starts, offset)

    def locate_problem(self, path: DocumentPath, message: str) -> DocumentProblem:
        """Make a problem with *message* at the position of *path*."""
        line, column = self.locate_path(path)
        return DocumentProblem(line=line, column=column, path=format_path(path), message=message)

    def make_usage_error(self, findings: Iterable[DocumentProblem]) -> UsageError:
        """Make one error that lists all *findings*, in the order of the file."""
        return UsageError("\n".join(format_problem(self.name, finding) for finding in sorted(set(findings))))


def format_problem(name: str, finding: DocumentProblem) -> str:
    """Format a problem: `suite.json:8:64: tasks[1].budget.maxTurns: expected an integer, got '30'`.

    The message is one line with unprintable characters escaped; an excerpt follows on lines of its own.
    """
    where = f"{finding.path}: " if finding.path else ""
    text = f"{name}:{finding.line}:{finding.column}: {where}{finding.message}"
    return "\n".join(_escape_unprintable(line) for line in (text, *finding.excerpt.splitlines()))


def format_path(path: DocumentPath) -> str:
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
    text = decode_text(raw, name)
    starts = find_line_starts(text)
    parser = _Parser(text, surrogates=surrogates)
    try:
        value = parser.parse_document()
    except DocumentSyntaxError as refused:
        raise refused.to_usage_error(name, starts) from None
    return Document(name=name, value=value, raw=raw, offsets=parser.offsets, starts=starts)


def decode_text(raw: bytes, name: str) -> str:
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
        line, column = _locate_offset(find_line_starts(before), len(before))
        raise UsageError(f"{name}:{line}:{column}: not UTF-8 (byte 0x{error.object[error.start]:02x})") from error


def find_line_starts(text: str) -> tuple[int, ...]:
    """Find the offsets at which lines begin."""
    return (0, *(match.end() for match in re.finditer("\n", text)))


def _escape_unprintable(text: str) -> str:
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)


def _locate_offset(starts: tuple[int, ...], offset: int) -> tuple[int, int]:
    line = bisect.bisect_right(starts, offset)
    return line, offset - starts[line - 1] + 1


@attrs.define(slots=False)
class DocumentSyntaxError(Exception):
    """A syntax error at an offset of a document."""

    message: str
    offset: int
    first: int | None = None
    """Offset of the first of two equal keys."""

    def to_usage_error(self, name: str, starts: tuple[int, ...]) -> UsageError:
        """Convert into the error for the user, with line and column."""
        line, column = _locate_offset(starts, self.offset)
        first = f" (first at line {_locate_offset(starts, self.first)[0]})" if self.first is not None else ""
        return UsageError(
            format_problem(name, DocumentProblem(line=line, column=column, path="", message=self.message + first))
        )


class _Parser:
    """A recursive descent parser over one text; every method takes an offset and returns the offset after its match."""

    def __init__(self, text: str, *, surrogates: bool) -> None:
        self.text = text
        self.surrogates = surrogates
        self.offsets: dict[DocumentPath, int] = {}
        self.escaped = json.JSONDecoder()

    def parse_document(self) -> Json:
        value, end = self.parse_value(self.skip_space(0), (), 0)
        end = self.skip_space(end)
        if end != len(self.text):
            self.refuse_at("expected the end of the document", end)
        return value

    def refuse_at(self, message: str, offset: int, first: int | None = None) -> NoReturn:
        raise DocumentSyntaxError(message, offset, first)

    def skip_space(self, offset: int) -> int:
        match = _SPACE_RUN.match(self.text, offset)
        assert match is not None  # the pattern also matches the empty string
        return match.end()

    def parse_value(self, offset: int, path: DocumentPath, depth: int) -> tuple[Json, int]:
        if depth > MAX_DEPTH:
            self.refuse_at(f"nested deeper than {MAX_DEPTH}", offset)
        self.offsets.setdefault(path, offset)  # the position of a key, set earlier, is the better one
        match self.text[offset : offset + 1]:
            case '"':
                return self.parse_string(offset)
            case "{":
                return self.parse_members(offset, path, depth)
            case "[":
                return self.parse_items(offset, path, depth)
            case _:
                return self.parse_scalar(offset)

    def parse_string(self, offset: int) -> tuple[str, int]:
        plain = _PLAIN_STRING.match(self.text, offset)
        if plain is not None:
            return plain[1], plain.end()
        try:
            value, end = self.escaped.raw_decode(self.text, offset)
        except json.JSONDecodeError as error:
            # the decoder's messages are good ("Unterminated string", "Invalid \\escape"), but not the offsets in them
            message = error.msg.removesuffix(" at").replace(" starting", "")
            self.refuse_at(message[:1].lower() + message[1:], error.pos)
        if not self.surrogates and _SURROGATE.search(value):
            self.refuse_at("a lone surrogate (half of a \\ud8..\\ud... pair) is not text", offset)
        return value, end

    def parse_scalar(self, offset: int) -> tuple[Json, int]:
        word = _WORD.match(self.text, offset)
        if word is None:
            actual = repr(self.text[offset]) if offset < len(self.text) else "the end of the file"
            self.refuse_at(f"expected a value, got {actual}", offset)
        if word[0] in _LITERALS:
            return _LITERALS[word[0]], word.end()
        number = _NUMBER.fullmatch(word[0])
        if number is None:
            meant = _MEANT_LITERALS.get(word[0])
            hint = f" (did you mean {meant}?)" if meant else " (JSON has no comments)" if word[0][0] in "/#" else ""
            self.refuse_at(f"expected a value, got {word[0][:40]}{hint}", offset)
        if len(word[0]) > MAX_NUMBER_CHARACTERS:
            self.refuse_at(f"expected at most {MAX_NUMBER_CHARACTERS} characters of a number", offset)
        if not (number[1] or number[2]):
            return int(word[0]), word.end()
        value = float(word[0])
        if value in (float("inf"), float("-inf")):
            self.refuse_at(f"{word[0][:40]} is too large for a number", offset)
        return value, word.end()

    def parse_members(self, offset: int, path: DocumentPath, depth: int) -> tuple[Json, int]:
        members: dict[str, Json] = {}
        for start in self.iterate_elements(offset, "}"):
            if self.text[start : start + 1] != '"':
                self.refuse_at('expected a "key"', start)
            key, end = self.parse_string(start)
            at = (*path, key)
            if key in members:
                self.refuse_at(f"duplicate key {key!r}", start, self.offsets[at])
            self.offsets[at] = start
            end = self.skip_space(end)
            if self.text[end : end + 1] != ":":
                self.refuse_at("expected ':'", end)
            members[key], self.end = self.parse_value(self.skip_space(end + 1), at, depth + 1)
        return members, self.end

    def parse_items(self, offset: int, path: DocumentPath, depth: int) -> tuple[Json, int]:
        items: list[Json] = []
        for start in self.iterate_elements(offset, "]"):
            item, self.end = self.parse_value(start, (*path, len(items)), depth + 1)
            items.append(item)
        return items, self.end

    end = 0
    """End offset of the last element read: callers of `iterate_elements` set it for each element."""

    def iterate_elements(self, offset: int, closing: str) -> Iterator[int]:
        """Yield the offset of each element of a list or object; then set `end` behind the closing bracket."""
        start = self.skip_space(offset + 1)
        if self.text[start : start + 1] == closing:
            self.end = start + 1
            return
        while True:
            yield start
            after = self.skip_space(self.end)
            match self.text[after : after + 1]:
                case ",":
                    start = self.skip_space(after + 1)
                    if self.text[start : start + 1] == closing:
                        self.refuse_at("trailing comma", after)
                case character if character == closing:
                    self.end = after + 1
                    return
                case "":
                    self.refuse_at(f"expected ',' or '{closing}', got the end of the file", after)
                case character:
                    self.refuse_at(f"expected ',' or '{closing}', got {character!r}", after)
