"""From what a person names to the two sides: a report's directory or file, `SWEEP`, `SWEEP:VARIANT`, or `last`."""

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
"""Reads a side from a report file; takes its path and the variant to read, None for the only one."""

WIDE_GAP_US = 600_000_000
"""Microseconds: two variants that began to work on a case further apart than this may have met different weather."""


@attrs.frozen(kw_only=True)
class Sides:
    """Both arms, read at one moment."""

    baseline: Arm
    candidate: Arm
    gaps: StartGaps | None
    """How far apart their runs began; None unless both are arms of one stored sweep."""


def read_sides(
    baseline: str,
    candidate: str,
    store: Path,
    *,
    read_report: ReportReader,
    words_of: Callable[[SweepRow], SideWords] = lambda _sweep: SUITE_WORDS,
) -> Sides:
    """Read both sides; the *store* is opened only if one of them is a sweep, *read_report* reads one that is a file,
    and *words_of* gives the words of a sweep's kind.

    Raises:
        UsageError, StoreRefused: a side cannot be found or read, with what was expected.
    """
    with ExitStack() as stack:
        reader: Reader | None = None
        sides: list[tuple[Arm, SweepRow | None]] = []
        for name in (baseline, candidate):
            if (report := _find_report(name)) is not None:
                sides.append((read_report(*report), None))
                continue
            if reader is None:
                from store.sql.reader import Reader

                reader = stack.enter_context(Reader(store))
            parts = parse_sweep_name(name)
            sweep = reader.find_sweep(parts.sweep)
            sides.append((read_stored_arm(reader, sweep, parts.arm, words_of(sweep)), sweep))
        (first, its), (second, other) = sides
        gaps = None
        if reader is not None and its is not None and other is not None and its.id == other.id:
            gaps = reader.measure_start_gaps(its.id, first.variant, second.variant, bound_us=WIDE_GAP_US)
        return Sides(baseline=first, candidate=second, gaps=gaps)


def _find_report(name: str) -> tuple[Path, str | None] | None:
    """The report that *name* means, with the variant it asks for; None where it means a sweep."""
    path, colon, variant = name.rpartition(":")
    for place, chosen in ((name, None), (path, variant)) if colon and path else ((name, None),):
        if Path(place).is_file() or (Path(place) / REPORT_NAME).is_file():
            return Path(place), chosen
    if parse_sweep_name(name).position is not None or name.endswith(".json"):
        return Path(name), None
    return None
