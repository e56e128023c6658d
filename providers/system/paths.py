"""Relative paths from files and models: they name something inside a root, or they are refused."""

from __future__ import annotations

import os
import re
from pathlib import Path

import attrs

from store.errors import EvalctlError

NAME_BYTES = 255
PATH_BYTES = 4096
"""What Linux allows, less for the whole path: the root's own length counts too, and opening says so."""

_DRIVE = re.compile(r"[A-Za-z]:(/|$)")


@attrs.define(slots=False)
class PathEscapes(EvalctlError):
    """A path that does not lead to a place inside its root."""

    path: str
    problem: str

    def __str__(self) -> str:
        shown = self.path if len(self.path) <= 200 else self.path[:200] + "…"
        return f"path {shown!r}: {self.problem}"


def check_relative(text: str) -> str | None:
    """Why *text* cannot be a path inside any root, or None where it can. Looks at the text alone.

    A path is relative, its parts are separated by `/`, and none of them is `..`.
    """
    if not text:
        return "is empty"
    if "\0" in text:
        return "holds a NUL character"
    if "\\" in text:
        return "holds a backslash; parts are separated by /"
    if text.startswith("/") or _DRIVE.match(text):
        return "is absolute; it must be relative"
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError:
        return "holds a character that no file name can hold"
    parts = encoded.split(b"/")
    if b".." in parts:
        return "must not hold .."
    if len(encoded) > PATH_BYTES or any(len(part) > NAME_BYTES for part in parts):
        return "is too long"
    return None


def resolve_inside(root: Path, relative: str) -> Path:
    """Where *relative* leads below *root*: an absolute path without symbolic links in it, which need not exist.

    Symbolic links are followed where they stay inside; one that leaves, loops, or leads through a file that is no
    directory is refused. The answer holds for the moment of asking; who opens it does so without following links.

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
            # What a link's target is made of may be links again, and `..` in it is meant from where it really lies.
            place = os.path.realpath(place)
            if os.path.islink(place):  # noqa: PTH114
                raise PathEscapes(relative, "holds a symbolic link that leads back to itself")
            if Path(place) != Path(top) and Path(top) not in Path(place).parents:
                raise PathEscapes(relative, "leads outside through a symbolic link")
    return Path(place)
