"""Snapshots of directory trees, and the changes since a snapshot: the evidence of an agent's work.

Contents are compared by hash, never by time stamps, which a program can set back. Symbolic links are recorded, not
followed; pipes, sockets and devices are recorded, not opened. Paths are relative, with `/`; a name that is not UTF-8
keeps its bytes as lone surrogates (`os.fsdecode`). Directories themselves are not recorded.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import attrs

from store.rows import FileChange

IGNORED_NAMES = frozenset({".git", "node_modules", "__pycache__"})
"""Names that are left out at every depth, for files as for directories."""

MAX_CONTENT_BYTES = 64 << 20
"""Maximum size in bytes of a file whose content a change includes."""
MAX_TOTAL_CONTENT_BYTES = 256 << 20
"""Maximum bytes of content in all changes of one call together; further changes have no content."""

_MODE_BITS = stat.S_ISUID | stat.S_ISGID | stat.S_IXUSR
"""Mode bits that count as a change. Read and write bits differ between a fixture and its writable copy."""
_READ_BYTES = 1 << 20


@attrs.frozen(kw_only=True)
class TreeEntry:
    """One entry of a tree."""

    kind: Literal["file", "link", "other"]
    """`other`: a pipe, socket or device, or an unreadable entry (no permission, path too long)."""
    mode: int
    """Permission bits; 0 for a link, which has no meaningful ones."""
    size: int = 0
    """Size of a file in bytes."""
    sha256: str | None = None
    """Hash of a file in hex; None if it cannot be read."""
    link: str | None = None
    """The target of a link, as written."""


@attrs.frozen(kw_only=True)
class Tree:
    """A snapshot of a directory: its entries by path."""

    entries: Mapping[str, TreeEntry]


def take_snapshot(root: Path) -> Tree:
    """Take a snapshot of everything below *root*, with the hash of every file.

    Raises:
        OSError: *root* itself cannot be listed.
    """
    with os.scandir(root):
        pass
    entries = {}
    for path, entry in _walk_entries(root):
        sha256 = _hash_file(_open_regular_file(root, path)) if entry.kind == "file" else None
        entries[path] = attrs.evolve(entry, sha256=sha256)
    return Tree(entries=entries)


def list_changes(before: Tree, root: Path) -> tuple[FileChange, ...]:
    """The changes below *root* since *before*, sorted by path, with the current contents.

    A file that cannot be read, is larger than `MAX_CONTENT_BYTES`, or comes after `MAX_TOTAL_CONTENT_BYTES` is used up
    has no content, and neither has one with several hard links, since another may lie outside. A missing *root* counts
    as an empty tree, and so does a link in its place, since its target lies elsewhere.
    """
    changes: list[FileChange] = []
    seen: set[str] = set()
    room = MAX_TOTAL_CONTENT_BYTES
    for path, entry in () if root.is_symlink() else _walk_entries(root):
        seen.add(path)
        old = before.entries.get(path)
        if old is not None and _is_unchanged(old, entry, root, path):
            continue
        content = None
        if entry.kind == "file":
            content = _read_content(_open_sole_file(root, path), min(MAX_CONTENT_BYTES, room))
            room -= len(content or b"")
        changes.append(
            FileChange(
                path=path,
                change="added" if old is None else "changed",
                mode=None if entry.kind == "link" else entry.mode,
                link=entry.link,
                content=content,
            )
        )
    changes += [FileChange(path=path, change="deleted") for path in before.entries if path not in seen]
    return tuple(sorted(changes, key=lambda change: change.path))


def _is_unchanged(old: TreeEntry, new: TreeEntry, root: Path, path: str) -> bool:
    if (old.kind, old.size, old.link) != (new.kind, new.size, new.link):
        return False
    if (old.mode ^ new.mode) & _MODE_BITS:
        return False
    return new.kind != "file" or old.sha256 == _hash_file(_open_regular_file(root, path))


def _walk_entries(root: Path) -> Iterator[tuple[str, TreeEntry]]:
    """All entries below *root*, files without hashes. Pending directories are on a list, so depth needs no stack."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as listing:  # noqa: PTH118 - no Path per entry: half the time
                children = [child for child in listing if child.name not in IGNORED_NAMES]
        except OSError:
            if folder:
                yield folder, TreeEntry(kind="other", mode=0)
            continue
        for child in children:
            path = f"{folder}/{child.name}" if folder else child.name
            try:
                status = child.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(path)
                else:
                    yield path, _read_entry(child.path, status)
            except FileNotFoundError:  # removed during the walk
                continue
            except OSError:  # its path is too long for the system
                yield path, TreeEntry(kind="other", mode=0)


def _read_entry(where: str, status: os.stat_result) -> TreeEntry:
    if stat.S_ISLNK(status.st_mode):
        return TreeEntry(kind="link", mode=0, link=os.readlink(where))  # noqa: PTH115 - see _walk
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISREG(status.st_mode):
        return TreeEntry(kind="file", mode=mode, size=status.st_size)
    return TreeEntry(kind="other", mode=mode)


def _open_regular_file(root: Path, path: str) -> int | None:
    """Open a regular file; None if it is unreadable or no longer a regular file."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(os.path.join(root, path), flags)  # noqa: PTH118 - see _walk
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    return handle


def _open_sole_file(root: Path, path: str) -> int | None:
    """Open a regular file that has no other hard link; None otherwise, or if it is unreadable."""
    handle = _open_regular_file(root, path)
    if handle is not None and os.fstat(handle).st_nlink > 1:
        os.close(handle)
        return None
    return handle


def _hash_file(handle: int | None) -> str | None:
    if handle is None:
        return None
    with os.fdopen(handle, "rb", buffering=0) as file:
        try:
            return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return None


def _read_content(handle: int | None, limit: int) -> bytes | None:
    """The complete content; None if it is larger than *limit* bytes or unreadable."""
    if handle is None:
        return None
    with os.fdopen(handle, "rb", buffering=0) as file:
        try:
            if os.fstat(handle).st_size > limit:
                return None
            pieces: list[bytes] = []
            size = 0
            while piece := file.read(_READ_BYTES):
                size += len(piece)
                if size > limit:  # it grows during reading
                    return None
                pieces.append(piece)
        except OSError:
            return None
    return b"".join(pieces)
