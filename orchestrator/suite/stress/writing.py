"""Generated files on the disk: written where nothing else is lost, and taken back when they are no longer made.

Beside them lies `generated.json`, the list of what was written and its hashes: a file that is not on it, or is no
longer what it was, belongs to somebody else.
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
"""Bytes of a list that is read."""
REMOVABLE_FOLDERS = ("fixtures/", "scripts/")
"""Where files may be taken back from."""
MAX_LISTED_FILES = 20
"""Files that one refusal names."""


@attrs.frozen(kw_only=True)
class Changes:
    """What has to be done so that a directory holds the generated files."""

    directory: Path
    write: Mapping[str, str]
    """New and changed files, by path within it."""
    remove: tuple[str, ...]
    """Files that were generated before, and have not been changed since."""
    unchanged: int
    listing: str
    """The content of `generated.json`."""


def plan_changes(directory: Path, files: Mapping[str, str]) -> Changes:
    """Find out what has to change; touches nothing.

    Raises:
        UsageError: *directory* is none, or files in it would be lost; names them.
    """
    if not directory.is_dir() and os.path.lexists(directory):
        raise UsageError(f"{directory} is not a directory")
    before = _read_list(directory)
    write: dict[str, str] = {}
    lost: list[str] = []
    for path, content in files.items():
        wanted = hashlib.sha256(content.encode()).hexdigest()
        found = _hash_existing(directory, path)
        if found is None or (found == before.get(path) and found != wanted):
            write[path] = content
        elif found != wanted:
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
    """Make the changes: each file as a whole or not at all, the list last.

    Raises:
        UsageError: the disk does not let us.
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
    """The content of `generated.json` for *files*."""
    hashes = {path: hashlib.sha256(content.encode()).hexdigest() for path, content in sorted(files.items())}
    return json.dumps({"schema": SCHEMA, "files": hashes}, ensure_ascii=False, indent=2) + "\n"


def _read_list(directory: Path) -> dict[str, str]:
    """Hashes by path; empty where there is no list.

    Raises:
        UsageError: what has its name is something else.
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
    """The hash of the file that is there, None where nothing is, and "" where it is no plain file of this directory."""
    try:
        for part in _parent_directories(path):
            mode = (directory / part).lstat().st_mode
            if not stat.S_ISDIR(mode):
                return ""
        if not stat.S_ISREG((directory / path).lstat().st_mode):
            return ""
        return hashlib.sha256((directory / path).read_bytes()).hexdigest()
    except FileNotFoundError:
        return None
    except OSError:
        return ""


def _parent_directories(path: str) -> Iterator[PurePosixPath]:
    """The directories on the way to *path*, the outermost first."""
    for parent in reversed(PurePosixPath(path).parents):
        if parent.parts:
            yield parent


def _write_file(file: Path, content: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(file) as into:
        into.write(content)


def _remove_file(directory: Path, path: str) -> None:
    (directory / path).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # somebody's file is in there, too
        for parent in reversed([*_parent_directories(path)]):
            (directory / parent).rmdir()
