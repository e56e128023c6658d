"""Writer of generated files: never overwrites other files, and removes files that are no longer generated.

The file `generated.json` beside them lists the written files with their hashes. A file that is not in the list, or has
another hash, belongs to the user and stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import attrs

from orchestrator.files import replace_file
from orchestrator.text import list_lines
from providers.system.paths import check_relative
from store.errors import UsageError
from store.events import Json

LISTING_FILE = "generated.json"
SCHEMA = "evalctl.generated/1"
MAX_LISTING_BYTES = 4 << 20
"""Largest `generated.json` that is read, in bytes."""
REMOVABLE_FOLDERS = ("fixtures/", "scripts/")
"""Folders from which generated files may be removed."""
MAX_LISTED_FILES = 20
"""Number of files that an error message names."""


@attrs.frozen(kw_only=True)
class Changes:
    """Changes that make a directory hold the generated files."""

    directory: Path
    write: Mapping[str, str]
    """Contents of new and changed files, by path in the directory."""
    remove: tuple[str, ...]
    """Paths of earlier generated files that the user has not changed and that are no longer generated."""
    unchanged: int
    """Number of files that need no change."""
    listing: str
    """Content of `generated.json`."""


def plan_changes(directory: Path, files: Mapping[str, str]) -> Changes:
    """Plan the changes without touching the disk.

    Raises:
        UsageError: *directory* is not a directory, or files in it would be lost; names them.
    """
    if not directory.is_dir() and os.path.lexists(directory):
        raise UsageError(f"{directory} is not a directory")
    before = _read_listing(directory)
    write: dict[str, str] = {}
    lost: list[str] = []
    for path, content in files.items():
        wanted = hashlib.sha256(content.encode()).hexdigest()
        existing = _hash_existing(directory, path)
        if existing is None or (existing == before.get(path) and existing != wanted):
            write[path] = content
        elif existing != wanted:
            lost.append(path)
    if lost:
        named = "\n".join(list_lines(lost, MAX_LISTED_FILES))
        raise UsageError(
            f"{directory} holds files that were not generated, or were changed since:\n{named}",
            "Nothing was written. Choose another directory, or move them away.",
        )
    gone = (path for path in before if path not in files and path.startswith(REMOVABLE_FOLDERS))
    return Changes(
        directory=directory,
        write=write,
        remove=tuple(path for path in gone if _hash_existing(directory, path) == before[path]),
        unchanged=len(files) - len(write),
        listing=render_listing(files),
    )


def apply_changes(changes: Changes) -> None:
    """Write and remove the files, each whole or not at all, and `generated.json` last.

    Raises:
        UsageError: a file cannot be written or removed.
    """
    try:
        for path, content in changes.write.items():
            _write_file(changes.directory / path, content)
        for path in changes.remove:
            _remove_file(changes.directory, path)
        _write_file(changes.directory / LISTING_FILE, changes.listing)
    except OSError as error:
        raise UsageError(
            f"{error.filename or changes.directory}: {error.strerror or error}", "Some files may have been written."
        ) from error


def render_listing(files: Mapping[str, str]) -> str:
    """Render the content of `generated.json` for *files*."""
    hashes = {path: hashlib.sha256(content.encode()).hexdigest() for path, content in sorted(files.items())}
    return json.dumps({"schema": SCHEMA, "files": hashes}, ensure_ascii=False, indent=2) + "\n"


def _read_listing(directory: Path) -> dict[str, str]:
    """Read the hashes by path; empty if there is no list.

    Raises:
        UsageError: the file is not a list of generated files.
    """
    file = directory / LISTING_FILE
    if not os.path.lexists(file):
        return {}
    foreign = UsageError(f"{file} is not a list of generated files", "Choose another directory, or move it away.")
    if file.is_symlink() or not file.is_file() or file.stat().st_size > MAX_LISTING_BYTES:
        raise foreign
    try:
        document: Json = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        raise foreign from None
    files = document.get("files") if isinstance(document, dict) and document.get("schema") == SCHEMA else None
    if not isinstance(files, dict):
        raise foreign
    return {path: sha for path, sha in files.items() if isinstance(sha, str) and check_relative(path) is None}


def _hash_existing(directory: Path, path: str) -> str | None:
    """Return the hash of an existing file, None if there is none, or "" if it is not a plain file of this directory."""
    try:
        for parent in _iterate_parents(path):
            mode = (directory / parent).lstat().st_mode
            if not stat.S_ISDIR(mode):
                return ""
        if not stat.S_ISREG((directory / path).lstat().st_mode):
            return ""
        return hashlib.sha256((directory / path).read_bytes()).hexdigest()
    except FileNotFoundError:
        return None
    except OSError:
        return ""


def _iterate_parents(path: str) -> Iterator[PurePosixPath]:
    """Yield the directories above *path*, the outermost first."""
    for parent in reversed(PurePosixPath(path).parents):
        if parent.parts:
            yield parent


def _write_file(file: Path, content: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(file) as into:
        into.write(content)


def _remove_file(directory: Path, path: str) -> None:
    (directory / path).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # the directory still holds other files
        for parent in reversed([*_iterate_parents(path)]):
            (directory / parent).rmdir()
