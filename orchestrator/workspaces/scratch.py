"""Scratch directory: holds the workspaces of one process for a sweep. Those of dead processes are removed here, too."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from providers.system.marks import HOME_PREFIX, build_home_prefix
from providers.system.removal import remove_tree
from store.errors import UsageError


def find_temporary_directory() -> Path:
    """Find the system's temporary directory.

    Raises:
        UsageError: none of its usual places is writable.
    """
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise UsageError(
            f"there is no temporary directory: {error.strerror}", "Set TMPDIR to a writable directory."
        ) from error


@contextmanager
def make_scratch(sweep: str, worker_id: int) -> Iterator[Path]:
    """Make a private directory (0700) below the system's temporary one, and remove it at the end."""
    scratch = Path(tempfile.mkdtemp(prefix=f"evalctl-{sweep}-{worker_id}-", dir=find_temporary_directory()))
    try:
        yield scratch
    finally:
        remove_tree(scratch)


def remove_abandoned(sweep: str, living: Collection[int]) -> int:
    """Remove the sweep's scratch directories whose worker is not among *living*; return their number."""
    prefix = f"evalctl-{sweep}-"
    abandoned = [
        path
        for path in find_temporary_directory().glob(f"{prefix}*")
        if (worker := path.name.removeprefix(prefix).partition("-")[0]).isdecimal() and int(worker) not in living
    ]
    for directory in abandoned:
        remove_tree(directory)
    return len(abandoned)


def remove_homes(dead: Collection[tuple[str, int, int]]) -> int:
    """Remove the home directories of programs of *dead* attempts (sweep, position, number); return their number."""
    names = tuple(build_home_prefix(f"{sweep}/{position}/{number}") for sweep, position, number in dead)
    abandoned = [path for path in find_temporary_directory().glob(f"{HOME_PREFIX}*") if path.name.startswith(names)]
    for directory in abandoned:
        remove_tree(directory)
    return len(abandoned)
