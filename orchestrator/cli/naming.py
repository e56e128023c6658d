"""What a person types for a sweep and its variant: `SWEEP`, `SWEEP:VARIANT`, `last:VARIANT`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.suite.variant import find_variant
from store.errors import UsageError

if TYPE_CHECKING:
    from store.rows import SweepRow
    from store.sql.reader import Reader


def named_arm(reader: Reader, typed: str) -> tuple[SweepRow, str | None]:
    """The sweep that *typed* means, and the variant that it names, if it names one.

    Raises:
        UsageError: there is no such sweep, or it has no such variant; with the nearest names.
    """
    name, colon, variant = typed.partition(":")
    sweep = reader.sweep(name)
    if not colon:
        return sweep, None
    from orchestrator.reports.conditions import noun_of

    return sweep, find_variant(variants_of(reader, sweep), variant, sweep=sweep.name, noun=noun_of(sweep))


def one_arm(reader: Reader, typed: str) -> tuple[SweepRow, str | None]:
    """The same where one variant is needed: a sweep that has several must be named with one.

    Raises:
        UsageError: also where none was named.
    """
    sweep, variant = named_arm(reader, typed)
    variants = variants_of(reader, sweep)
    if variant is None and variants:
        from orchestrator.reports.conditions import noun_of

        raise UsageError(
            f"sweep {sweep.name} has {len(variants)} {noun_of(sweep)}s",
            f"Name one of them: {', '.join(f'{sweep.name}:{name}' for name in variants)}",
        )
    return sweep, variant


def refuse_lab(reader: Reader, typed: str) -> None:
    """Raise where *typed* means the sweep of a decision lab, which is not exported.

    Raises:
        UsageError: it does, or there is no such sweep.
    """
    from orchestrator.reports.conditions import is_lab

    sweep = reader.sweep(typed.partition(":")[0])
    if is_lab(sweep):
        raise UsageError(
            f"{sweep.name} ran a decision lab; export knows what to take out of sweeps of suites only",
            "A lab's run directory holds report.md and results.jsonl: read them before you share them.",
        )


def variants_of(reader: Reader, sweep: SweepRow) -> tuple[str, ...]:
    """The variants of a sweep, the baseline first; none where it compares nothing."""
    return tuple(dict.fromkeys(cell.variant for cell in reader.cells(sweep.id) if cell.variant))
