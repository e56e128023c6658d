"""Recursive removal of hostile directories: read-only, very deep, very large, or full of links.

Links are never followed and nothing outside the directory is touched. Depth needs no stack and no descriptors:
directories below the first level are moved up before they are emptied.
"""

from __future__ import annotations

import errno
import os
import stat
from itertools import count, islice
from pathlib import Path

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

BATCH_NAMES = 4096
"""Names held in memory at once."""

NAME_TAKEN_ERRNOS = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})
"""Errors of renaming a directory to a name in use."""


class _LimitReached(Exception):
    """The limit of entries is reached; never leaves this module."""


def remove_tree(path: Path, *, at_most: int | None = None) -> bool:
    """Remove *path* and everything below it; a missing path counts as removed.

    With *at_most*, stop after that many entries; another call continues. Returns True if nothing is left. False without
    *at_most* means that something cannot be removed (an immutable file, a mount).
    """
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    try:
        if not stat.S_ISDIR(status.st_mode):
            path.unlink()
            return True
        parent = os.open(path.parent, DIRECTORY_FLAGS & ~os.O_NOFOLLOW)
        try:
            top = _open_directory(path.name, parent)
            try:
                _Removal(at_most).empty_directory(top)
            finally:
                os.close(top)
            os.rmdir(path.name, dir_fd=parent)
        finally:
            os.close(parent)
    except (_LimitReached, OSError):
        return False
    return True


class _Removal:
    def __init__(self, at_most: int | None) -> None:
        self.left = at_most
        self.names = count()

    def empty_directory(self, top: int) -> None:
        """Remove everything in the directory *top*."""
        while True:
            children, complete = self.clear_files(top)
            for child in children:
                handle = _open_directory(child, top)
                try:
                    self.flatten_directory(handle, top)
                finally:
                    os.close(handle)
                os.rmdir(child, dir_fd=top)
            if complete and not children:
                return

    def flatten_directory(self, directory: int, top: int) -> None:
        """Empty *directory*; its subdirectories are moved up to *top*."""
        complete = False
        while not complete:
            inner, complete = self.clear_files(directory)
            for name in inner:
                self.move_directory_up(name, directory, top)

    def clear_files(self, directory: int) -> tuple[list[str], bool]:
        """Unlink everything but directories; returns the names of directories, and True if that was all."""
        with os.scandir(directory) as entries:
            batch = BATCH_NAMES if self.left is None else min(BATCH_NAMES, self.left + 1)
            names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in islice(entries, batch)]
        if self.left is not None:
            self.left -= len(names)
        inner = []
        for name, is_directory in names:
            if is_directory:
                inner.append(name)
            else:
                os.unlink(name, dir_fd=directory)
        if self.left is not None and self.left < 0:
            raise _LimitReached
        return inner, len(names) < batch

    def move_directory_up(self, name: str, source: int, top: int) -> None:
        """Move a directory up under a free name; it must be writable itself, since its `..` changes."""
        os.close(_open_directory(name, source))
        for number in self.names:
            try:
                os.rename(name, f".removing-{number}", src_dir_fd=source, dst_dir_fd=top)
            except OSError as error:
                if error.errno not in NAME_TAKEN_ERRNOS:
                    raise
            else:
                return


def _open_directory(name: str, parent: int) -> int:
    """Open a directory and make it readable, searchable and writable."""
    try:
        handle = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
    except PermissionError:
        _unlock_directory(name, parent)
        handle = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
    if os.fstat(handle).st_mode & stat.S_IRWXU != stat.S_IRWXU:
        os.fchmod(handle, stat.S_IRWXU)
    return handle


def _unlock_directory(name: str, parent: int) -> None:
    # chmod follows links where the system cannot change a link's mode: go through a handle that has not followed one
    flags = getattr(os, "O_PATH", None)
    if flags is None:
        os.chmod(name, stat.S_IRWXU, dir_fd=parent)
        return
    handle = os.open(name, flags | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{handle}", stat.S_IRWXU)  # noqa: PTH101 - a handle's path
    finally:
        os.close(handle)
