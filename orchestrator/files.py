"""Atomic file writing: a reader sees the old content or the new one, never a part of either.

A new file is written beside the old one, under a name that holds the process's id, and then takes its place.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO


@contextmanager
def replace_file(path: Path, *, only_new: bool = False) -> Iterator[TextIO]:
    """Open a UTF-8 text file that replaces *path* when the block ends without an error.

    With *only_new*, *path* must not exist at the end of the block either.

    Raises:
        FileExistsError: *path* exists, with *only_new*.
        OSError: the file cannot be written.
    """
    beside = path.with_name(_name_beside(path.name))
    beside.unlink(missing_ok=True)
    try:
        with beside.open("x", encoding="utf-8", newline="\n") as file:
            yield file
        if only_new:
            _link_new(path, beside)
        else:
            beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def replace_files(contents: Mapping[Path, bytes]) -> None:
    """Write every file and sync it to the disk, then replace one after the other. Folders are made as needed.

    Raises:
        OSError: a file cannot be written; `filename` is its path in *contents*.
    """
    written: dict[Path, Path] = {}
    path = Path()
    try:
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            written[path] = path.with_name(_name_beside(path.name))
            with written[path].open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for path, beside in written.items():
            beside.replace(path)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        for beside in written.values():
            beside.unlink(missing_ok=True)


def replace_below(root: Path, steps: Sequence[str], content: bytes) -> None:
    """Replace the file *steps* below *root* once *content* is synced to the disk, without following a symbolic link.

    From *root* on, every folder is opened by its name relative to the one above it, so that a link made meanwhile
    leads nowhere. Folders are made as needed.

    Raises:
        OSError: the file cannot be written, or a step is a link.
    """
    *folders, name = steps
    beside = _name_beside(name)
    here = os.open(root, os.O_DIRECTORY)
    try:
        for folder in folders:
            with suppress(FileExistsError):
                os.mkdir(folder, dir_fd=here)
            above, here = here, os.open(folder, os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(above)
        _remove_at(beside, here)  # of a process that was killed
        try:
            number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=here)
            with os.fdopen(number, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, name, src_dir_fd=here, dst_dir_fd=here)
        except OSError:
            _remove_at(beside, here)
            raise
    finally:
        os.close(here)


def _name_beside(name: str) -> str:
    return f".{name}.{os.getpid()}"


def _link_new(path: Path, finished: Path) -> None:
    try:
        path.hardlink_to(finished)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: an empty file of ours holds the place
        path.touch(exist_ok=False)
        finished.replace(path)


def _remove_at(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
