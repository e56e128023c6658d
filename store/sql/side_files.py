"""Identity of a store's files on disk: the database, its write-ahead log and shared memory, and the lock file.

SQLite keeps its side files open by descriptor. If one is removed or replaced under a live process, another process
makes a new one, and both write without knowing of each other: the database is destroyed. Only comparing the inodes
behind the names with those at opening shows it.
"""

from __future__ import annotations

import os
from pathlib import Path

from store.errors import StoreRefused

Identity = tuple[int, int] | None
"""Device and inode; None if there is no such file."""


class SideFiles:
    """The files of an open store, as they were identified once.

    Args:
        store: the store's file, by any name.
        lock: the lock file.
        wal: whether the store has a write-ahead log and its shared memory.
    """

    def __init__(self, store: Path, lock: Path, *, wal: bool) -> None:
        self._store = store
        real = os.path.realpath(store)
        self.log = Path(f"{real}-wal")
        """The write-ahead log, beside the file that links lead to."""
        paths = [store, lock, *([self.log, Path(f"{real}-shm")] if wal else ())]
        self._known = {path: identify_file(path) for path in paths}

    def check_in_place(self) -> None:
        """Check that every name still leads to the file that was open, so that commits will be found again.

        Raises:
            StoreRefused: a file has been removed or replaced.
        """
        for path, known in self._known.items():
            if identify_file(path) != known:
                what = "the file" if path == self._store else f"its side file {path.name}"
                raise StoreRefused(str(self._store), f"{what} has been removed or replaced while it was in use")


def identify_file(path: Path) -> Identity:
    """Return the device and inode behind *path*; None if there is no such file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
