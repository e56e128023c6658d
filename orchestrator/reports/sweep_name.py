"""Parses the typed name of a stored sweep, one of its arms, or one of its runs."""

from __future__ import annotations

from typing import NamedTuple


class SweepName(NamedTuple):
    """The parts of `SWEEP`, `SWEEP:ARM` or `SWEEP/POSITION`."""

    sweep: str
    """A sweep's name, a prefix of it, or `last`."""
    arm: str | None = None
    """A variant or a target; None if no arm is named."""
    position: str | None = None
    """Position of a run in the sweep, as typed; None if no run is named."""


def parse_sweep_name(typed: str) -> SweepName:
    """Split *typed* into its parts.

    A `:` before the first `/` makes everything after it the arm: an arm's name may contain `/`, and positions count the
    runs of the whole sweep, never those of one arm.
    """
    sweep, colon, arm = typed.partition(":")
    if colon and "/" not in sweep:
        return SweepName(sweep, arm=arm)
    sweep, slash, position = typed.partition("/")
    return SweepName(sweep, position=position if slash else None)
