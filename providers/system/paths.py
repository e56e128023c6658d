"""Path validation: relative paths from files and models must stay inside a root (no path traversal)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import attrs

from store.errors import EvalctlError

MAX_NAME_BYTES = 255
MAX_PATH_BYTES = 4096
"""Linux's limits. A path below a root may be shorter, since the root counts too; then opening it fails."""

_DRIVE_LETTER = re.compile(r"[A-Za-z]:(/|$)")


@attrs.define(slots=False)
class PathEscapes(EvalctlError):
    """A path leads outside its root or is invalid."""

    path: str
    problem: str

    def __str__(self) -> str:
        excerpt = self.path if len(self.path) <= 200 else self.path[:200] + "…"
        return f"path {excerpt!r}: {self.problem}"


def keep_absolute_entries(search: str) -> str:
    """The PATH *search* without empty and relative entries, which would be looked up in the directory of an agent; the
    system's default if none is left.
    """
    kept = [entry for entry in search.split(os.pathsep) if entry.startswith("/")]
    return os.pathsep.join(kept) or os.defpath


def build_git_ceilings(places: Iterable[Path]) -> str:
    """The value of GIT_CEILING_DIRECTORIES with which git, started in or below one of *places*, finds no repository
    above it. It names all directories above, so that it also holds after a `cd ..`.

    A path with a colon cannot be named in such a list and is left out.
    """
    above = (parent for place in places for parent in Path(os.path.realpath(place)).parents)
    return os.pathsep.join(dict.fromkeys(str(parent) for parent in above if os.pathsep not in str(parent)))


def check_relative(text: str) -> str | None:
    """The reason why *text* cannot be a path inside any root; None if it can. Checks the text alone.

    A path must be relative, with parts separated by `/`, none of which is `..`.
    """
    problem = _check_spelling(text)
    if problem is not None:
        return problem
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError:
        return "holds a character that no file name can hold"
    parts = encoded.split(b"/")
    if b".." in parts:
        return "must not hold .."
    if len(encoded) > MAX_PATH_BYTES or any(len(part) > MAX_NAME_BYTES for part in parts):
        return "is too long"
    return None


def _check_spelling(text: str) -> str | None:
    if not text:
        return "is empty"
    if "\0" in text:
        return "holds a NUL character"
    if "\\" in text:
        return "holds a backslash; parts are separated by /"
    if text.startswith("/") or _DRIVE_LETTER.match(text):
        return "is absolute; it must be relative"
    return None


def resolve_inside(root: Path, relative: str) -> Path:
    """Resolve *relative* below *root* to an absolute path without symbolic links, which need not exist.

    Symbolic links are followed if they stay inside; one that leads outside, loops, or leads through a file is refused.
    The result may become outdated at any time, so open it without following links.

    Raises:
        PathEscapes: *relative* does not lead inside.
    """
    problem = check_relative(relative)
    if problem is not None:
        raise PathEscapes(relative, problem)
    top = place = os.path.realpath(root)
    for part in relative.split("/"):
        if part in ("", "."):
            continue
        place = os.path.join(place, part)  # noqa: PTH118 - no Path per part: this is asked for every file
        if os.path.islink(place):  # noqa: PTH114
            # The parts of a link's target may be links again, and its `..` is relative to the link's real place.
            place = os.path.realpath(place)
            if os.path.islink(place):  # noqa: PTH114
                raise PathEscapes(relative, "holds a symbolic link that leads back to itself")
            if Path(place) != Path(top) and Path(top) not in Path(place).parents:
                raise PathEscapes(relative, "leads outside through a symbolic link")
    return Path(place)
