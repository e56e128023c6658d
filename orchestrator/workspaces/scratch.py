"""One process's directory for the workspaces of a sweep, and what is done about those of dead processes."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from providers.system.marks import HOME_PREFIX, build_home_prefix
from providers.system.removal import remove_tree
from store.errors import UsageError


def find_temporary_directory() -> Path:
    """The system's temporary directory.

    Raises:
        UsageError: nothing can be written to any of its usual places.
    """
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise UsageError(f"there is no temporary directory: {error.strerror}", "Set TMPDIR to one.") from error


@contextmanager
def make_scratch(sweep: str, worker_id: int) -> Iterator[Path]:
    """A private directory (0700) below the system's temporary one, removed at the end."""
    made = Path(tempfile.mkdtemp(prefix=f"evalctl-{sweep}-{worker_id}-", dir=find_temporary_directory()))
    try:
        yield made
    finally:
        remove_tree(made)


def remove_abandoned(sweep: str, living: Collection[int]) -> int:
    """Remove the sweep's scratch directories whose worker is not among *living*; how many there were."""
    prefix = f"evalctl-{sweep}-"
    abandoned = [
        found
        for found in find_temporary_directory().glob(f"{prefix}*")
        if (worker := found.name.removeprefix(prefix).partition("-")[0]).isdecimal() and int(worker) not in living
    ]
    for directory in abandoned:
        remove_tree(directory)
    return len(abandoned)


def remove_homes(dead: Collection[tuple[str, int, int]]) -> int:
    """Remove the homes that programs of *dead* attempts (sweep, position, number) had; how many there were."""
    names = tuple(build_home_prefix(f"{sweep}/{position}/{number}") for sweep, position, number in dead)
    abandoned = [found for found in find_temporary_directory().glob(f"{HOME_PREFIX}*") if found.name.startswith(names)]
    for directory in abandoned:
        remove_tree(directory)
    return len(abandoned)
