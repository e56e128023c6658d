"""Git repositories inside a fixture: finds those that a copy must leave out, because they lead to the user's own."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

REPOSITORY_NAME = ".git"

MAX_CONFIG_BYTES = 2**20
"""Bytes of a repository's configuration that are searched."""

_WORK_TREE = re.compile(rb"^[ \t]*(?:\[[^\]\n]*\][ \t]*)?worktree[ \t]*=", re.IGNORECASE | re.MULTILINE)


def find_left_out(root: Path, *, git: bool) -> Iterator[tuple[str, str]]:
    """Yield every `.git` below *root* that a copy leaves out: its path relative to *root*, and the reason.

    With *git*, the copy becomes a repository of its own, so every `.git` is left out.
    """
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(root / folder) as listing:
                children = sorted(listing, key=lambda child: child.name)
        except OSError:
            continue
        for child in children:
            path = f"{folder}/{child.name}" if folder else child.name
            if child.name == REPOSITORY_NAME:
                reason = find_pointer(Path(child.path)) or ("the copy gets its own repository" if git else None)
                if reason:
                    yield path, reason
            elif child.is_dir(follow_symlinks=False):
                waiting.append(path)


def find_pointer(place: Path) -> str | None:
    """Return why *place*, which is called `.git`, leads git to files outside its directory; None if it does not.

    A file (of a linked work tree or a submodule) and a link always do.

    Raises:
        OSError: *place* cannot be read.
    """
    mode = place.lstat().st_mode
    if stat.S_ISLNK(mode):
        return "a link to a repository"
    if not stat.S_ISDIR(mode):
        return "a file that names a repository elsewhere, as in a linked work tree or a submodule"
    if os.path.lexists(place / "commondir"):
        return "a linked work tree of another repository"
    if os.path.lexists(place / "objects" / "info" / "alternates"):
        return "its objects lie in another repository"
    for name in ("config", "config.worktree"):
        if _names_work_tree(place / name):
            return f"its {name} names a work tree (core.worktree)"
    return None


def _names_work_tree(config: Path) -> bool:
    if not config.is_file():
        return False
    with config.open("rb") as file:
        return _WORK_TREE.search(file.read(MAX_CONFIG_BYTES)) is not None
