"""What a directory holds, and what has changed in it: the evidence of what an agent did.

Contents are compared by hash, never by time stamps, which whoever changed a file can set back. Symbolic links are
recorded, not followed; pipes, sockets and devices are recorded, not opened. Paths are relative, with `/`; a name that
is not UTF-8 keeps its bytes as lone surrogates (`os.fsdecode`). Directories are not recorded on their own.
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

IGNORED = frozenset({".git", "node_modules", "__pycache__"})
"""Names left out at every depth, whatever bears them."""

CONTENT_LIMIT = 64 << 20
"""Bytes of one file that a change carries; of a larger file it carries no content."""
CONTENT_TOTAL = 256 << 20
"""Bytes that all changes of one call carry together; beyond them they carry no content."""

_MODE_BITS = stat.S_ISUID | stat.S_ISGID | stat.S_IXUSR
"""What counts as a change of mode. Read and write bits differ between a fixture and its writable copy."""
_PIECE = 1 << 20


@attrs.frozen(kw_only=True)
class Entry:
    """One thing in a tree."""

    kind: Literal["file", "link", "other"]
    """`other`: a pipe, socket or device, or what cannot be looked at (no permission, a path too long)."""
    mode: int
    """Permission bits; 0 for a link, whose own mean nothing."""
    size: int = 0
    """Bytes of a file."""
    sha256: str | None = None
    """Of a file, in hex; None where it cannot be read."""
    link: str | None = None
    """Where a link points, as written."""


@attrs.frozen(kw_only=True)
class Tree:
    """A directory as it was, by path."""

    entries: Mapping[str, Entry]


def snapshot(root: Path) -> Tree:
    """Everything below *root*, with the hash of every file.

    Raises:
        OSError: *root* itself cannot be listed.
    """
    with os.scandir(root):
        pass
    entries = {}
    for path, entry in _walk(root):
        sha256 = _sha256(_open(root, path)) if entry.kind == "file" else None
        entries[path] = attrs.evolve(entry, sha256=sha256)
    return Tree(entries=entries)


def changes(before: Tree, root: Path) -> tuple[FileChange, ...]:
    """What differs below *root* from *before*, sorted by path, with the contents as they are now.

    A file that cannot be read, is larger than `CONTENT_LIMIT`, or comes after `CONTENT_TOTAL` is used up has no
    content. A missing *root* is a tree without entries, and so is a link in its place: what it leads to is not ours.
    """
    found: list[FileChange] = []
    seen: set[str] = set()
    room = CONTENT_TOTAL
    for path, entry in () if root.is_symlink() else _walk(root):
        seen.add(path)
        old = before.entries.get(path)
        if old is not None and _same(old, entry, root, path):
            continue
        content = None
        if entry.kind == "file":
            content = _content(_open(root, path), min(CONTENT_LIMIT, room))
            room -= len(content or b"")
        found.append(
            FileChange(
                path=path,
                change="added" if old is None else "changed",
                mode=None if entry.kind == "link" else entry.mode,
                link=entry.link,
                content=content,
            )
        )
    found += [FileChange(path=path, change="deleted") for path in before.entries if path not in seen]
    return tuple(sorted(found, key=lambda change: change.path))


def _same(old: Entry, new: Entry, root: Path, path: str) -> bool:
    if (old.kind, old.size, old.link) != (new.kind, new.size, new.link):
        return False
    if (old.mode ^ new.mode) & _MODE_BITS:
        return False
    return new.kind != "file" or old.sha256 == _sha256(_open(root, path))


def _walk(root: Path) -> Iterator[tuple[str, Entry]]:
    """All entries below *root*, files without their hash. Directories wait on a list, so depth costs no stack."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(os.path.join(root, folder)) as listing:  # noqa: PTH118 - no Path per entry: half the time
                children = [child for child in listing if child.name not in IGNORED]
        except OSError:
            if folder:
                yield folder, Entry(kind="other", mode=0)
            continue
        for child in children:
            path = f"{folder}/{child.name}" if folder else child.name
            try:
                status = child.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(path)
                else:
                    yield path, _entry(child.path, status)
            except FileNotFoundError:  # it went while we looked
                continue
            except OSError:  # its path is longer than the system takes
                yield path, Entry(kind="other", mode=0)


def _entry(where: str, status: os.stat_result) -> Entry:
    if stat.S_ISLNK(status.st_mode):
        return Entry(kind="link", mode=0, link=os.readlink(where))  # noqa: PTH115 - see _walk
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISREG(status.st_mode):
        return Entry(kind="file", mode=mode, size=status.st_size)
    return Entry(kind="other", mode=mode)


def _open(root: Path, path: str) -> int | None:
    """A descriptor of a regular file; None where there is none to read, or something else has taken its place."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(os.path.join(root, path), flags)  # noqa: PTH118 - see _walk
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    return handle


def _sha256(handle: int | None) -> str | None:
    if handle is None:
        return None
    with os.fdopen(handle, "rb", buffering=0) as file:
        try:
            return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return None


def _content(handle: int | None, limit: int) -> bytes | None:
    """The whole content, or None where it is larger than *limit* bytes or cannot be read."""
    if handle is None:
        return None
    with os.fdopen(handle, "rb", buffering=0) as file:
        try:
            if os.fstat(handle).st_size > limit:
                return None
            pieces: list[bytes] = []
            held = 0
            while piece := file.read(_PIECE):
                held += len(piece)
                if held > limit:  # it grows while we read
                    return None
                pieces.append(piece)
        except OSError:
            return None
    return b"".join(pieces)
