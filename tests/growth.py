"""How long work on a text takes is told by how it grows: a machine that is busy is busy for both lengths."""

from __future__ import annotations

import time  # noqa: TID251 - how long it takes is what is tested
from collections.abc import Callable


def assert_in_proportion(work: Callable[[str], object], text: str) -> None:
    """*work* takes time in proportion to the length of *text*, up to small times that nobody notices."""
    part, whole = (min(_seconds(work, text[:length]) for _ in range(3)) for length in (len(text) // 4, len(text)))
    assert whole < 8 * part + 0.05, "four times the text: what backtracks takes sixteen times as long"


def _seconds(work: Callable[[str], object], text: str) -> float:
    begun = time.thread_time()
    work(text)
    return time.thread_time() - begun
