"""Reads the two sides from their names: a report's directory or file, `SWEEP`, `SWEEP:VARIANT`, or `last`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from orchestrator.comparison.arm import Arm
from orchestrator.comparison.stored import SUITE_WORDS, SideWords, read_stored_arm
from orchestrator.reports.report_file import REPORT_NAME
from orchestrator.reports.sweep_name import parse_sweep_name

if TYPE_CHECKING:
    from store.rows import SweepRow
    from store.sql.reader import Reader
    from store.tallies import StartGaps

ReportReader = Callable[[Path, str | None], Arm]
"""Reads a side from a report file. Takes its path and the variant; None selects the only one."""

WIDE_GAP_US = 600_000_000
"""Microseconds. Paired runs that start further apart than this may have met a different load at the provider."""


@attrs.frozen(kw_only=True)
class Sides:
    """Both arms of a comparison."""

    baseline: Arm
    candidate: Arm
    gaps: StartGaps | None
    """Gaps between the starts of paired runs; None unless both are arms of one stored sweep."""


def read_sides(
    baseline: str,
    candidate: str,
    store: Path,
    *,
    read_report: ReportReader,
    words_of: Callable[[SweepRow], SideWords] = lambda _sweep: SUITE_WORDS,
) -> Sides:
    """Read both sides.

    Args:
        baseline: name of the first side.
        candidate: name of the second side.
        store: path of the store, which is opened only if a side is a sweep.
        read_report: reads a side that is a report file.
        words_of: returns the words of a sweep's kind.

    Raises:
        UsageError: a side cannot be found or read.
        StoreRefused: the store cannot be opened.
    """
    with ExitStack() as stack:
        reader: Reader | None = None
        sides: list[tuple[Arm, SweepRow | None]] = []
        for name in (baseline, candidate):
            if (report := _find_report(name)) is not None:
                sides.append((read_report(*report), None))
                continue
            if reader is None:
                from store.sql.reader import Reader  # noqa: PLC0415 - two report files need no database

                reader = stack.enter_context(Reader(store))
            parts = parse_sweep_name(name)
            sweep = reader.find_sweep(parts.sweep)
            sides.append((read_stored_arm(reader, sweep, parts.arm, words_of(sweep)), sweep))
        (first, first_sweep), (second, second_sweep) = sides
        gaps = None
        if reader is not None and first_sweep and second_sweep and first_sweep.id == second_sweep.id:
            gaps = reader.measure_start_gaps(first_sweep.id, first.variant, second.variant, bound_us=WIDE_GAP_US)
        return Sides(baseline=first, candidate=second, gaps=gaps)


def _find_report(name: str) -> tuple[Path, str | None] | None:
    """Find the report file that *name* refers to, with the variant it selects; None if it refers to a sweep."""
    path, colon, variant = name.rpartition(":")
    for file, selected in ((name, None), (path, variant)) if colon and path else ((name, None),):
        if Path(file).is_file() or (Path(file) / REPORT_NAME).is_file():
            return Path(file), selected
    if parse_sweep_name(name).position is not None or name.endswith(".json"):
        return Path(name), None
    return None
