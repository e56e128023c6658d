"""Replacing a file in one step: readers see the old content or the new one, never a part."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def replacing(path: Path, *, only_new: bool = False) -> Iterator[TextIO]:
    """A file that takes the place of *path* when it is complete. Processes do not meet: each has a name of its own.

    With *only_new* it takes no place that anything else has by then, however late that came.

    Raises:
        FileExistsError: it did.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.unlink(missing_ok=True)
    try:
        with unfinished.open("x", encoding="utf-8", newline="\n") as file:
            yield file
        if only_new:
            _take(path, unfinished)
        else:
            unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _take(path: Path, finished: Path) -> None:
    try:
        path.hardlink_to(finished)
    except FileExistsError:
        raise
    except OSError:  # a file system without such links: an empty file of ours holds the place
        path.touch(exist_ok=False)
        finished.replace(path)
