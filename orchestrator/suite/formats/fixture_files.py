"""What is in a fixture directory: the hash of every file, and what cannot be part of a fixture."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import attrs

from providers.system.tree import IGNORED_NAMES


@attrs.frozen(kw_only=True)
class FixtureFiles:
    """A fixture as found."""

    content: dict[str, str]
    """SHA-256 (hex) by path relative to the fixture, sorted; `x:` before it marks an executable file, `l:` a symbolic
    link, whose hash is that of its target's spelling."""
    problems: tuple[str, ...]
    """What keeps it from being used, one line each."""


def inspect_fixture(root: Path) -> FixtureFiles:
    """Hash every file below *root*; collects what is wrong instead of raising."""
    content: dict[str, str] = {}
    problems: list[str] = []
    real = root.resolve()
    for relative, entry, ignored in _walk_files(root, "", ignored=False):
        shown = relative.encode("utf-8", "backslashreplace").decode()
        if isinstance(entry, OSError):
            problems.append(f"{shown or '.'}: cannot be read: {entry.strerror}")
            continue
        if shown != relative:
            problems.append(f"{shown}: the name is not UTF-8")
            continue
        try:
            mode = entry.lstat().st_mode
            if stat.S_ISLNK(mode):
                target = os.readlink(entry)  # noqa: PTH115 - the spelling; Path.readlink normalizes it
                problem = _find_link_problem(entry, target, real)
                if problem:
                    problems.append(f"{relative}: {problem}")
                elif not ignored:
                    content[relative] = "l:" + hashlib.sha256(os.fsencode(target)).hexdigest()
            elif not stat.S_ISREG(mode):
                problems.append(f"{relative}: neither a file nor a directory nor a symbolic link")
            elif not ignored:
                content[relative] = ("x:" if mode & 0o100 else "") + _hash_file(entry)
        except OSError as error:
            problems.append(f"{relative}: cannot be read: {error.strerror}")
    return FixtureFiles(content=dict(sorted(content.items())), problems=tuple(sorted(problems)))


def _hash_file(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _walk_files(directory: Path, prefix: str, *, ignored: bool) -> Iterator[tuple[str, Path | OSError, bool]]:
    """Everything below *directory* that is no directory. Links are never followed."""
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        yield prefix.rstrip("/"), error, ignored
        return
    for entry in entries:
        relative = f"{prefix}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            # even what does not count is copied, so its links must stay inside, too
            yield from _walk_files(Path(entry.path), f"{relative}/", ignored=ignored or entry.name in IGNORED_NAMES)
        else:
            yield relative, Path(entry.path), ignored


def _find_link_problem(link: Path, target: str, root: Path) -> str | None:
    """A link of a fixture has to lead to the same place in every copy: relative, and never out of it."""
    if os.path.isabs(target):  # noqa: PTH117 - the spelling decides
        return f"a symbolic link to an absolute path ({target})"
    inside = Path(os.path.realpath(link)).is_relative_to(root)  # loops and missing targets inside do no harm
    return None if inside else f"a symbolic link that leads out of the fixture ({target})"
