"""Protection of check files against tampering: the fixture's files that a check runs and the run must not change.

A *check file* is a fixture file that is named in the arguments of a `command` verifier and not covered by an `allowed`
of the task. Each is restored before a command runs, so that an agent cannot pass by editing its check.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from providers.system.removal import remove_tree
from store.errors import EvalctlError
from verifiers.base import Verifier
from verifiers.tree_diff import TreeDiffWithin, covers_path


class NotRestored(EvalctlError):
    """A check file could not be restored."""


def find_check_files(verifiers: Iterable[Verifier], fixture: Path) -> tuple[str, ...]:
    """Find the task's check files: sorted paths relative to *fixture*."""
    every = tuple(verifiers)
    allowed = [entry for verifier in every if isinstance(verifier, TreeDiffWithin) for entry in verifier.allowed]
    named = {
        path
        for verifier in every
        for argument in getattr(verifier, "command", ())
        for path in _extract_paths(argument)
        if not covers_path(allowed, path) and _is_file(fixture, path)
    }
    return tuple(sorted(named))


def restore_check_files(protected: Sequence[str], fixture: Path, workspace: Path) -> tuple[str, ...]:
    """Restore the check files in *workspace*. Returns those that differed from *fixture*.

    An obstacle (a link, a directory) is removed, never followed.

    Raises:
        NotRestored: the file system refuses.
    """
    tampered = []
    for path in protected:
        try:
            if not _is_unchanged(fixture / path, workspace, path):
                tampered.append(path)
                _put_back(fixture / path, workspace, path)
        except OSError as error:
            raise NotRestored(f"{path}: cannot be restored: {error.strerror}") from error
    return tuple(tampered)


def _extract_paths(argument: str) -> list[str]:
    """Extract the relative paths that an argument may name: itself, and the value of an option with `=`."""
    candidates = [argument]
    if argument.startswith("-") and "=" in argument:
        candidates.append(argument.partition("=")[2])
    plain = (PurePosixPath(text) for text in candidates if text and "\0" not in text)
    return [str(path) for path in plain if not path.is_absolute() and ".." not in path.parts and path.parts]


def _is_file(fixture: Path, path: str) -> bool:
    try:
        return stat.S_ISREG((fixture / path).lstat().st_mode)
    except OSError:
        return False


def _is_unchanged(pristine: Path, workspace: Path, path: str) -> bool:
    parts = PurePosixPath(path).parts
    where = workspace
    for part in parts[:-1]:
        where /= part
        if not _has_kind(where, stat.S_IFDIR):
            return False
    here = workspace / path
    if not _has_kind(here, stat.S_IFREG):
        return False
    was, now = pristine.stat(), here.lstat()
    if was.st_size != now.st_size or was.st_mode & stat.S_IXUSR != now.st_mode & stat.S_IXUSR:
        return False
    if not now.st_mode & stat.S_IRUSR:
        return False
    with pristine.open("rb") as original, here.open("rb") as copy:
        while True:
            left, right = original.read(2**20), copy.read(2**20)
            if left != right:
                return False
            if not left:
                return True


def _has_kind(path: Path, kind: int) -> bool:
    try:
        return stat.S_IFMT(path.lstat().st_mode) == kind
    except (FileNotFoundError, NotADirectoryError):
        return False


def _put_back(pristine: Path, workspace: Path, path: str) -> None:
    where = workspace
    for part in PurePosixPath(path).parts[:-1]:
        _make_writable(where)
        where /= part
        if not _has_kind(where, stat.S_IFDIR):
            remove_tree(where)
            where.mkdir(0o755)
    _make_writable(where)
    remove_tree(workspace / path)
    mode = stat.S_IMODE(pristine.stat().st_mode)
    handle = os.open(workspace / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(handle, "wb") as target, pristine.open("rb") as source:  # noqa: PTH123 - opened by handle
        shutil.copyfileobj(source, target)
        os.fchmod(handle, mode)


def _make_writable(directory: Path) -> None:
    if directory.lstat().st_mode & stat.S_IRWXU != stat.S_IRWXU:
        directory.chmod(0o755)
