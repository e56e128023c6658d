"""A lab's cassettes on the disk: what a target answered to a fixture, and of which fixture."""

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
"""Streams know no other ends of lines, and JSON's strings hold any other character."""
_UNSEEN = re.compile("[\x7f-\x9f\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Characters that no reader of a file sees, or that change what he sees."""


@attrs.frozen(kw_only=True)
class LabCassette:
    """What one target answered to one fixture."""

    fixture_version: int
    input_hash: str
    """Of the fixture's input, see `Fixture.input_hash`."""
    answers: Mapping[str, tuple[RecordedAnswer, ...]]
    """By node; at least one each, of which the last counts."""

    def to_json(self) -> dict[str, Json]:
        """As the file says it: nodes sorted."""
        return {
            "schema": SCHEMA,
            "fixtureVersion": self.fixture_version,
            "inputHash": self.input_hash,
            "answers": {node: [attrs.asdict(one) for one in given] for node, given in sorted(self.answers.items())},
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


def find_cassette(lab: Lab, fixture: LabCase, target: str, *, name: str) -> tuple[LabCassette, str] | None:
    """What was recorded of *target* for *fixture*, and the SHA-256 (hex) of its file; None where there is no file.
    Messages call it *name*.

    Raises:
        UsageError: it leads out of the lab, cannot be read, or is no cassette; see `decode_cassette`.
    """
    relative = fixture.cassette_path(target)
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
    """The cassette in a file's bytes, strictly: nothing is in it that this version does not know.

    Raises:
        UsageError: it is too long, or is no cassette; all that is wrong with it, with line and field.
    """
    if len(raw) > MAX_CASSETTE_BYTES:
        raise UsageError(f"{name}:1:1: more than {MAX_CASSETTE_BYTES:,} bytes; a cassette has at most that many")
    document = parse_json(raw, name=name)
    found, findings = structure_document(document, _File, _make_converter())
    findings += _find_problems(document)
    if found is None or findings:
        raise document.make_usage_error(findings)
    return LabCassette(
        fixture_version=found.fixture_version,
        input_hash=found.input_hash,
        answers={
            node: tuple(RecordedAnswer(status=one.status, body=one.body) for one in given)
            for node, given in found.answers.items()
        },
    )


def explain_stale(cassette: LabCassette, fixture: LabCase) -> str | None:
    """Why the cassette says nothing about *fixture* as it is now; None where it does."""
    if cassette.fixture_version != fixture.version:
        return f"fixture version {cassette.fixture_version} recorded, now {fixture.version}"
    return None if cassette.input_hash == fixture.input_hash else "input changed"


def encode_cassette(cassette: LabCassette) -> bytes:
    """The file's bytes: the same for equal cassettes.

    Raises:
        UsageError: a body holds a lone surrogate, which is no text.
    """
    text = json.dumps(cassette.to_json(), ensure_ascii=False, allow_nan=False, indent=2)
    text = _UNSEEN.sub(lambda unseen: f"\\u{ord(unseen[0]):04x}", text)
    try:
        return f"{text}\n".encode()
    except UnicodeEncodeError as error:
        raise UsageError("a recorded body holds a lone surrogate, which is no text") from error


def refuse_unwritable(root: Path) -> None:
    """What nobody could keep is not asked for: said before the first call, not after it.

    Raises:
        UsageError: in the lab in *root* no cassette can be written.
    """
    folder = root / CASSETTES
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{folder}: a symbolic link or no directory, so no cassette is written there")
    place = folder if folder.exists() else root
    if not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(
            f"{place} cannot be written to, and cassettes go there", "Copy the lab, and name the copy with --lab-dir."
        )


def write_cassette(file: Path, cassette: LabCassette, root: Path, redactor: Redactor) -> None:
    """Write a cassette below a lab's *root*, replacing what is there: all of it or, if it is refused, nothing.

    Raises:
        UsageError: it holds a secret (told by its field, never shown) or a mark of one, is too long, or is none that
            could be read again; *file* lies outside *root* or behind a symbolic link; or the disk refuses.
    """
    name = file.name
    if secrets := [f"{name}: {field}: holds {what}" for field, what in _find_secrets(cassette, redactor)]:
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
        link = error.errno in {errno.ELOOP, errno.ENOTDIR}
        why = "a directory on its way is a symbolic link or none" if link else error.strerror or str(error)
        raise UsageError(f"{file}: the cassette cannot be written: {why}", "Nothing was written.") from error


@cache
def _make_converter() -> Converter:
    """One for all of a lab's cassettes: to make one takes ten times as long as to read with it."""
    return make_converter()


def _find_problems(document: Document) -> Iterator[DocumentProblem]:
    """What the shape alone does not tell: ids of nodes, nodes without an answer, bodies that are none."""
    answers = document.value.get("answers") if isinstance(document.value, dict) else None
    for node, given in answers.items() if isinstance(answers, dict) else ():
        at: DocumentPath = ("answers", node)
        if not _NODE.fullmatch(node):
            yield document.locate_problem(at, f"expected the id of a node ([a-z0-9-]+), got {describe_value(node)}")
        if given == []:
            yield document.locate_problem(at, "has to hold an answer")
        for index, one in enumerate(given if isinstance(given, list) else ()):
            if isinstance(one, dict) and "body" in one and not isinstance(one["body"], str | dict | list):
                message = f"expected an object, an array, or the text of the body, got {describe_value(one['body'])}"
                yield document.locate_problem((*at, index, "body"), message)


# --- secrets ------------------------------------------------------------------------------------------------------


def _find_secrets(cassette: LabCassette, redactor: Redactor) -> list[tuple[str, str]]:
    """The fields that hold a secret, with what kind of thing it is; once each."""
    document = cassette.to_json()
    found = dict(find_secret_fields(document, (), redactor))
    for node, given in cassette.answers.items():
        for index, one in enumerate(given):
            if isinstance(one.body, str):
                at: DocumentPath = ("answers", node, index, "body")
                for text in _join_body_texts(one.body):
                    found |= dict(find_secret_fields(text, at, redactor))
    return [(format_path(path), kind) for path, kind in found.items()]


def _join_body_texts(body: str) -> Sequence[str]:
    """The texts that a body tells, those of a stream put together: a secret may be spread over its events, or be
    written with escapes.
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
    """Every text in a value, and where. A stack instead of recursion: a model decides how deep it is nested."""
    todo: list[tuple[Json, DocumentPath]] = [(value, at)]
    while todo:
        here, path = todo.pop()
        match here:
            case str():
                yield path, here
            case list():
                todo += [(item, (*path, index)) for index, item in enumerate(here)]
            case dict():
                todo += [(item, (*path, key)) for key, item in here.items()]


# --- the disk -----------------------------------------------------------------------------------------------------


def _split_path(file: Path, root: Path) -> tuple[str, ...]:
    """The names that lead from *root* to *file*."""
    steps = file.relative_to(root).parts if file.is_relative_to(root) else ()
    if not steps or ".." in steps:
        raise UsageError(f"{file} is not in the lab {root}", "Nothing was written.")
    return steps
