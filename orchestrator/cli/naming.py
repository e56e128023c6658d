"""What a person types for a sweep and its variant: `SWEEP`, `SWEEP:VARIANT`, `last:VARIANT`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.kinds import kind_of
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
    noun = kind_of(sweep).nouns.variant
    return sweep, find_variant(variants_of(reader, sweep), variant, sweep=sweep.name, noun=noun)


def one_arm(reader: Reader, typed: str) -> tuple[SweepRow, str | None]:
    """The same where one variant is needed: a sweep that has several must be named with one.

    Raises:
        UsageError: also where none was named.
    """
    sweep, variant = named_arm(reader, typed)
    variants = variants_of(reader, sweep)
    if variant is None and variants:
        raise UsageError(
            f"sweep {sweep.name} has {len(variants)} {kind_of(sweep).nouns.variant}s",
            f"Name one of them: {', '.join(f'{sweep.name}:{name}' for name in variants)}",
        )
    return sweep, variant


def variants_of(reader: Reader, sweep: SweepRow) -> tuple[str, ...]:
    """The variants of a sweep, the baseline first; none where it compares nothing."""
    return tuple(dict.fromkeys(cell.variant for cell in reader.cells(sweep.id) if cell.variant))
