"""Files of a fixture directory: the hash of each, and problems that keep the directory from being a fixture."""

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
    """Content and problems of a fixture directory."""

    content: dict[str, str]
    """SHA-256 (hex) by path relative to the fixture, sorted; `x:` before it marks an executable file, `l:` a symbolic
    link, whose hash is that of its target's spelling."""
    problems: tuple[str, ...]
    """Reasons why the fixture cannot be used, one line each."""


def inspect_fixture(root: Path) -> FixtureFiles:
    """Hash every file below *root*. Problems are collected and not raised."""
    content: dict[str, str] = {}
    problems: list[str] = []
    real = root.resolve()
    for relative, entry, ignored in _walk_files(root, "", ignored=False):
        printable = relative.encode("utf-8", "backslashreplace").decode()
        if isinstance(entry, OSError):
            problems.append(f"{printable or '.'}: cannot be read: {entry.strerror}")
            continue
        if printable != relative:
            problems.append(f"{printable}: the name is not UTF-8")
            continue
        try:
            mode = entry.lstat().st_mode
            if stat.S_ISLNK(mode):
                target = os.readlink(entry)  # noqa: PTH115 - Path.readlink would normalize the spelling
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
    """Yield everything below *directory* that is not a directory: relative path, entry or error, whether it is ignored.

    Links are never followed.
    """
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError as error:
        yield prefix.rstrip("/"), error, ignored
        return
    for entry in entries:
        relative = f"{prefix}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            # ignored files are copied as well, so their links must stay inside, too
            yield from _walk_files(Path(entry.path), f"{relative}/", ignored=ignored or entry.name in IGNORED_NAMES)
        else:
            yield relative, Path(entry.path), ignored


def _find_link_problem(link: Path, target: str, root: Path) -> str | None:
    """Return why a link may not be in a fixture. It must lead to the same file in every copy: relative, and inside."""
    if os.path.isabs(target):  # noqa: PTH117 - the spelling decides
        return f"a symbolic link to an absolute path ({target})"
    inside = Path(os.path.realpath(link)).is_relative_to(root)  # loops and missing targets inside are harmless
    return None if inside else f"a symbolic link that leads out of the fixture ({target})"
