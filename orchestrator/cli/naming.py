"""Find the sweep and the variant that a command line names: `SWEEP`, `SWEEP:VARIANT`, `last:VARIANT`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.kinds import kind_of
from orchestrator.reports.sweep_name import parse_sweep_name
from orchestrator.suite.variant import find_variant
from store.errors import UsageError

if TYPE_CHECKING:
    from store.rows import SweepRow
    from store.sql.reader import Reader


def find_sweep_and_variant(reader: Reader, typed: str) -> tuple[SweepRow, str | None]:
    """Find the sweep and the variant that *typed* names; the variant is None if it names none.

    Raises:
        UsageError: there is no such sweep or variant; the message suggests the nearest names.
    """
    name = parse_sweep_name(typed)
    sweep = reader.find_sweep(name.sweep)
    if name.arm is None:
        return sweep, None
    variants = variants_of(reader, sweep)
    arm, _, position = name.arm.rpartition("/")
    if name.arm not in variants and arm in variants and position.isdigit():
        raise UsageError("positions count over all variants of a sweep", f"Name the sweep alone: {name.sweep}.")
    return sweep, find_variant(variants, name.arm, sweep=sweep.name, noun=kind_of(sweep).nouns.variant)


def find_single_variant(reader: Reader, typed: str) -> tuple[SweepRow, str | None]:
    """Find the sweep and the variant that *typed* names, for a verb that needs the report of one variant.

    Raises:
        UsageError: as `find_sweep_and_variant`; or the sweep has variants, and *typed* names none.
    """
    sweep, variant = find_sweep_and_variant(reader, typed)
    variants = variants_of(reader, sweep)
    if variant is None and variants:
        raise UsageError(
            f"sweep {sweep.name} has {len(variants)} {kind_of(sweep).nouns.variant}s",
            f"Name one: {', '.join(f'{sweep.name}:{name}' for name in variants)}",
        )
    return sweep, variant


def variants_of(reader: Reader, sweep: SweepRow) -> tuple[str, ...]:
    """List the variants of a sweep, the baseline first; empty for a sweep without variants."""
    return tuple(dict.fromkeys(cell.variant for cell in reader.list_cells(sweep.id) if cell.variant))
