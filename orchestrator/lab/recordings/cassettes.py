"""A lab's cassettes on disk: the recorded answers of one target to one case, and the case's version and input hash."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs

from orchestrator.files import replace_below
from orchestrator.lab.model import CASSETTES, Lab, LabCase
from providers.decisions.answer_log import RecordedAnswer
from providers.endpoints.arguments import INVALID_JSON, parse_model_json
from providers.system.paths import PathEscapes, resolve_inside
from store.documents.positions import Document, DocumentPath, DocumentProblem, format_path, parse_json, read_raw
from store.documents.structure import describe_value, make_converter, structure_document
from store.errors import UsageError
from store.events import Json
from store.secrets.fields import find_secret_fields
from store.secrets.redactor import Redactor

if TYPE_CHECKING:
    from cattrs import Converter

SCHEMA = "evalctl.lab-cassette/1"
MAX_CASSETTE_BYTES = 256 * 1024

_NODE = re.compile(r"[a-z0-9-]+")
_LINE = re.compile(r"[\r\n]")
"""Streams have only these line ends; JSON strings may contain any other character."""
_INVISIBLE = re.compile("[\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Characters that are invisible in a file or change how the text around them looks."""


@attrs.frozen(kw_only=True)
class LabCassette:
    """A cassette: the recorded answers of one target to one case."""

    fixture_version: int
    input_hash: str
    """SHA-256 (hex) of the case's input; see `LabCase.input_hash`."""
    answers: Mapping[str, tuple[RecordedAnswer, ...]]
    """By node; at least one each, of which the last counts."""

    def to_json(self) -> dict[str, Json]:
        """Return the file's JSON object, with nodes sorted."""
        return {
            "schema": SCHEMA,
            "fixtureVersion": self.fixture_version,
            "inputHash": self.input_hash,
            "answers": {
                node: [attrs.asdict(answer) for answer in answers] for node, answers in sorted(self.answers.items())
            },
        }


@attrs.frozen(kw_only=True)
class _Answer:
    status: int = attrs.field(validator=[attrs.validators.ge(200), attrs.validators.le(599)])
    body: Json


@attrs.frozen(kw_only=True)
class _File:
    schema: Literal["evalctl.lab-cassette/1"]
    fixture_version: int = attrs.field(validator=attrs.validators.ge(1))
    input_hash: str = attrs.field(validator=attrs.validators.matches_re(r"[0-9a-f]{64}"))
    answers: Mapping[str, tuple[_Answer, ...]]


def find_cassette(lab: Lab, case: LabCase, target: str, *, name: str) -> tuple[LabCassette, str] | None:
    """Read the cassette of *target* for *case*, with the SHA-256 (hex) of its file; None if there is no file.

    Messages name the file *name*.

    Raises:
        UsageError: the path leads out of the lab, or the file cannot be read or is not valid; see `decode_cassette`.
    """
    relative = case.cassette_path(target)
    try:
        (lab.root / relative).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror or error}") from error
    try:
        raw = read_raw(resolve_inside(lab.root, relative), name)
    except PathEscapes as error:
        raise UsageError(f"{name}: {error.problem}") from error
    return decode_cassette(raw, name=name), hashlib.sha256(raw).hexdigest()


def decode_cassette(raw: bytes, *, name: str) -> LabCassette:
    """Decode a file's bytes strictly: unknown fields are errors.

    Raises:
        UsageError: the file is too long or not a valid cassette; with every finding, by line and field.
    """
    if len(raw) > MAX_CASSETTE_BYTES:
        raise UsageError(f"{name}:1:1: more than {MAX_CASSETTE_BYTES:,} bytes; a cassette has at most that many")
    document = parse_json(raw, name=name)
    structured, findings = structure_document(document, _File, _make_converter())
    findings += _find_problems(document)
    if structured is None or findings:
        raise document.make_usage_error(findings)
    return LabCassette(
        fixture_version=structured.fixture_version,
        input_hash=structured.input_hash,
        answers={
            node: tuple(RecordedAnswer(status=answer.status, body=answer.body) for answer in answers)
            for node, answers in structured.answers.items()
        },
    )


def explain_stale(cassette: LabCassette, case: LabCase) -> str | None:
    """Return why the cassette does not match *case* as it is now; None if it matches."""
    if cassette.fixture_version != case.version:
        return f"fixture version {cassette.fixture_version} recorded, now {case.version}"
    return None if cassette.input_hash == case.input_hash else "input changed"


def encode_cassette(cassette: LabCassette) -> bytes:
    """Encode the file's bytes, which are the same for equal cassettes.

    Raises:
        UsageError: a body contains a lone surrogate, which UTF-8 cannot encode.
    """
    text = json.dumps(cassette.to_json(), ensure_ascii=False, allow_nan=False, indent=2)
    text = _INVISIBLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    try:
        return f"{text}\n".encode()
    except UnicodeEncodeError as error:
        raise UsageError("a recorded body contains a lone surrogate, which UTF-8 cannot encode") from error


def refuse_unwritable(root: Path) -> None:
    """Check before the first call that cassettes can be written to the lab in *root*.

    Raises:
        UsageError: they cannot.
    """
    folder = root / CASSETTES
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{folder}: a symbolic link or not a directory, so no cassettes are written there")
    place = folder if folder.exists() else root
    if not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(
            f"{place} is not writable, so no cassettes can be written there",
            "Copy the lab, and name the copy with --lab-dir.",
        )


def write_cassette(file: Path, cassette: LabCassette, root: Path, redactor: Redactor) -> None:
    """Write a cassette to *file* below a lab's *root*, atomically: the old file stays if the new one is refused.

    Raises:
        UsageError: the cassette contains a secret (the error names its field, not its value) or the mark of a masked
            one, is too long, or could not be read again; *file* is outside *root* or behind a symbolic link; or the
            system call failed.
    """
    name = file.name
    if secrets := [f"{name}: {field}: holds {kind}" for field, kind in _find_secrets(cassette, redactor)]:
        raise UsageError("\n".join(secrets), "Nothing was written. Only status and body of an answer are recorded.")
    raw = encode_cassette(cassette)
    if len(raw) > MAX_CASSETTE_BYTES:
        raise UsageError(
            f"{name}: {len(raw):,} bytes; a cassette has at most {MAX_CASSETTE_BYTES:,}", "Nothing was written."
        )
    decode_cassette(raw, name=name)
    try:
        replace_below(root, _split_path(file, root), raw)
    except OSError as error:
        is_link = error.errno in {errno.ELOOP, errno.ENOTDIR}
        reason = "part of its path is a symbolic link or not a directory" if is_link else error.strerror or str(error)
        raise UsageError(f"{file}: the cassette cannot be written: {reason}", "Nothing was written.") from error


@cache
def _make_converter() -> Converter:
    """Make the converter of cassettes, once: making it takes ten times as long as reading a cassette."""
    return make_converter()


def _find_problems(document: Document) -> Iterator[DocumentProblem]:
    """Find the problems that the types do not: invalid ids of nodes, nodes without an answer, invalid bodies."""
    answers = document.value.get("answers") if isinstance(document.value, dict) else None
    for node, entries in answers.items() if isinstance(answers, dict) else ():
        at: DocumentPath = ("answers", node)
        if not _NODE.fullmatch(node):
            yield document.locate_problem(at, f"expected the id of a node ([a-z0-9-]+), got {describe_value(node)}")
        if entries == []:
            yield document.locate_problem(at, "expected at least one answer")
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, dict) and "body" in entry and not isinstance(entry["body"], str | dict | list):
                body = describe_value(entry["body"])
                message = f"expected an object, an array, or the text of the body, got {body}"
                yield document.locate_problem((*at, index, "body"), message)


# --- secrets ------------------------------------------------------------------------------------------------------


def _find_secrets(cassette: LabCassette, redactor: Redactor) -> list[tuple[str, str]]:
    """Find the fields that contain a secret, each once, as pairs of field and kind of secret."""
    document = cassette.to_json()
    matches = dict(find_secret_fields(document, (), redactor))
    for node, answers in cassette.answers.items():
        for index, answer in enumerate(answers):
            if isinstance(answer.body, str):
                at: DocumentPath = ("answers", node, index, "body")
                for text in _join_body_texts(answer.body):
                    matches |= dict(find_secret_fields(text, at, redactor))
    return [(format_path(path), kind) for path, kind in matches.items()]


def _join_body_texts(body: str) -> Sequence[str]:
    """Return the texts of a body, those of a stream joined.

    A secret may be split over the events of a stream or written with escapes.
    """
    pieces: dict[DocumentPath, list[str]] = {}
    whole = parse_model_json(body)
    lines = (parse_model_json(line.removeprefix("data:")) for line in _LINE.split(body))
    for value in lines if whole is INVALID_JSON else (whole,):
        if value is not INVALID_JSON:
            for path, text in _iterate_texts(value, ()):
                pieces.setdefault(path, []).append(text)
    return ["".join(parts) for parts in pieces.values()]


def _iterate_texts(value: Json, at: DocumentPath) -> Iterator[tuple[DocumentPath, str]]:
    """Yield every text in a value with its path.

    Uses a stack instead of recursion, since a model decides how deep the value is nested.
    """
    pending: list[tuple[Json, DocumentPath]] = [(value, at)]
    while pending:
        item, path = pending.pop()
        match item:
            case str():
                yield path, item
            case list():
                pending += [(child, (*path, index)) for index, child in enumerate(item)]
            case dict():
                pending += [(child, (*path, key)) for key, child in item.items()]


# --- the disk -----------------------------------------------------------------------------------------------------


def _split_path(file: Path, root: Path) -> tuple[str, ...]:
    """Return the names on the path from *root* to *file*."""
    steps = file.relative_to(root).parts if file.is_relative_to(root) else ()
    if not steps or ".." in steps:
        raise UsageError(f"{file} is not in the lab {root}", "Nothing was written.")
    return steps
