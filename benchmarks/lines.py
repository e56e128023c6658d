"""The table that is printed: its lines, how much is measured for them, and word of how far it is."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import attrs


@attrs.frozen(kw_only=True)
class Line:
    """One line of the table; `kept` is None where there is nothing to hold it to."""

    number: int
    what: str
    goal: str
    floor: str = "-"
    evalctl: str
    ratio: str = "-"
    kept: bool | None = None


@attrs.frozen(kw_only=True)
class Size:
    """How much is measured."""

    rounds: int
    runs: tuple[int, int, int]
    """Small, middle, large number of runs for slopes."""
    latency_runs: int
    rows: int


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def table(lines: Sequence[Line]) -> str:
    """Plain text, columns as wide as they must be."""
    heads = ("#", "what", "goal", "floor", "evalctl", "ratio", "")
    words = {True: "ok", False: "MISSED", None: ""}
    cells = [heads, *((str(n.number), n.what, n.goal, n.floor, n.evalctl, n.ratio, words[n.kept]) for n in lines)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([shown[0], "-" * len(max(shown, key=len)), *shown[1:]])
