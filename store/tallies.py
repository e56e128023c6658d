"""Aggregates per cell: outcome counts, token sums and durations. Comparisons read these instead of single runs.

Durations are integer milliseconds. Each sum is over the judged runs that reported every number in it.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen(kw_only=True)
class CellTally:
    """The aggregated current results of one cell in one sweep."""

    cell_id: int
    planned: int
    finished: int
    """Number of planned runs with a result."""
    passes: int
    judged: int
    """Number of judged runs; runs that ended in an error are left out, although a lab judges them."""
    budget_exceeded: int
    errored: int
    skipped: int
    input_tokens: int
    output_tokens: int
    token_runs: int
    """Number of judged runs that reported both counts; the two sums are over these."""
    cached_tokens: int
    cached_input: int
    """Sum of input tokens over the runs in `cached_runs`."""
    cached_runs: int
    """Number of judged runs that reported cached tokens in every turn."""
    compacted: int
    """Number of judged runs with a compacted context."""
    walls_ms: tuple[int, ...]
    """Working times of the judged runs."""
    incidents: Mapping[str, int]
    """Incident name -> count, over all runs with a result."""
    models: tuple[str, ...]
    """The models that answered."""


@attrs.frozen(kw_only=True)
class VerifierCount:
    """The number of times that one verifier gave one verdict on the current results of a cell."""

    cell_id: int
    verifier: str
    kind: str
    verdict: str
    count: int


@attrs.frozen(kw_only=True)
class StartGaps:
    """Time between the starts of the two runs of a pair (same case, same repetition, two variants)."""

    pairs: int
    """Number of pairs in which both runs were judged and have a start time."""
    mean_us: float | None
    longest_us: int | None
    wide: int
    """Number of pairs with a longer gap than the bound of the query."""
