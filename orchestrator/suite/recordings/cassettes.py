"""Cassette files: finding and reading a suite's cassettes, and writing all of them or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from orchestrator.files import replace_files
from orchestrator.installation import BUNDLED
from orchestrator.suite.model import Suite, Task
from providers.recording.cassette import (
    FILE_SUFFIX,
    MAX_CASSETTE_BYTES,
    Cassette,
    build_documents,
    decode_cassette,
    encode_cassette,
)
from providers.recording.normalization import NormalizeRule
from store.documents.positions import format_path
from store.errors import UsageError
from store.events import Json
from store.secrets.fields import find_secret_fields
from store.secrets.redactor import Redactor

FOLDER = "cassettes"
MAX_DIRECTORY_BYTES = 2 * 2**20
"""Limit for the sum of all cassettes in one directory."""
REVIEW_NOTICE = "The search for secrets is a safety net: read a cassette before you share it."


def find_cassette_directory(suite: Suite, given: str | None) -> Path:
    """Return the directory of a suite's cassettes: *given*, or else the suite's own."""
    return Path(given) if given is not None else suite.root / FOLDER


def make_rules(task: Task) -> tuple[NormalizeRule, ...]:
    """Make the normalization rules of a task from its `replayNormalize`."""
    return tuple(NormalizeRule(pattern=rule.pattern, replace=rule.replace) for rule in task.replay_normalize)


def list_recorded_tasks(suite: Suite, directory: Path) -> tuple[Task, ...]:
    """List the tasks that have a cassette in *directory*, in the suite's order."""
    return tuple(task for task in suite.tasks if (directory / f"{task.id}{FILE_SUFFIX}").is_file())


def read_cassette(suite: Suite, task: Task, directory: Path) -> Cassette:
    """Read the cassette of a task that has one.

    Raises:
        UsageError: the file cannot be read, is not a cassette, is damaged, or is for another task, suite or version.
    """
    path = directory / f"{task.id}{FILE_SUFFIX}"
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_CASSETTE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    header = (cassette := decode_cassette(raw, name=str(path))).header
    for field, recorded, wanted in (
        ("suiteId", header.suite_id, suite.suite_id),
        ("suiteVersion", header.suite_version, suite.suite_version),
        ("taskId", header.task_id, task.id),
    ):
        if recorded != wanted:
            raise UsageError(
                f"{path}:1: {field}: recorded with {recorded!r}, but the suite has {wanted!r}",
                "A recording is valid only for the version it was made with. Record it again: evalctl record SUITE.",
            )
    return cassette


def refuse_installed(directory: Path) -> None:
    """Refuse to record into an installed package, whose files must not change.

    Raises:
        UsageError: *directory* is below the bundled suites, and these are not in a checkout.
    """
    checkout = (BUNDLED.parent / "pyproject.toml").is_file()
    if directory.resolve().is_relative_to(BUNDLED) and not checkout:
        raise UsageError(
            f"{directory} is part of the installed package, which evalctl does not write to",
            "Name another place: --cassette-dir DIR, or --out DIR with --bundled.",
        )


def write_cassettes(cassettes: Mapping[Path, Cassette], redactor: Redactor) -> None:
    """Write every cassette to its path, or none of them.

    Raises:
        UsageError: a cassette contains a secret (named by its field, never shown) or the mark of a removed one, a
            cassette or a directory is too large, or the files cannot be written. No file has changed then.
    """
    texts: dict[Path, bytes] = {}
    problems: list[str] = []
    for path, cassette in cassettes.items():
        documents = list(build_documents(cassette))
        secrets = [f"{path.name}: {field}: holds {kind}" for field, kind in _find_secrets(documents, redactor)]
        if secrets:
            problems += secrets
            continue
        texts[path] = encode_cassette(documents)
        if len(texts[path]) > MAX_CASSETTE_BYTES:
            problems.append(f"{path.name}: {len(texts[path]):,} bytes; a cassette has at most {MAX_CASSETTE_BYTES:,}")
    problems += _find_full_directories(texts)
    if problems:
        raise UsageError("\n".join(problems), f"Nothing was written. {REVIEW_NOTICE}")
    try:
        replace_files(texts)
    except OSError as error:
        raise UsageError(f"{error.filename}: cannot write the cassettes: {error.strerror or error}") from error


def _find_full_directories(texts: Mapping[Path, bytes]) -> Iterator[str]:
    for directory in sorted({path.parent for path in texts}):
        others = [path for path in directory.glob(f"*{FILE_SUFFIX}") if path not in texts]
        total = sum(path.stat().st_size for path in others)
        total += sum(len(text) for path, text in texts.items() if path.parent == directory)
        if total > MAX_DIRECTORY_BYTES:
            yield f"{directory}: {total:,} bytes in all; a directory of cassettes has at most {MAX_DIRECTORY_BYTES:,}"


def _find_secrets(documents: Sequence[Json], redactor: Redactor) -> Iterator[tuple[str, str]]:
    """Yield each field that contains a secret, with the kind of secret."""
    for number, document in enumerate(documents):
        at = ("calls", number - 1) if "call" in document else ()
        secrets = dict(find_secret_fields(document, at, redactor))
        # streamed text is stored in pieces, and a secret may span several of them
        for name in ("text", "reasoning"):
            streamed = "".join(event.get(name, "") for event in document.get("events", ()))
            secrets |= find_secret_fields(streamed, (*at, "events"), redactor)
        for path, kind in secrets.items():
            yield format_path(path), kind
