"""What the runs of a cell came to, summed up: what comparisons read instead of runs.

Durations are integer milliseconds. Sums are over judged runs, each over those that reported all it is about.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen(kw_only=True)
class CellTally:
    """The current results of one cell in one sweep."""

    cell_id: int
    planned: int
    finished: int
    """Planned runs with a result."""
    passes: int
    judged: int
    """Without those that ended in an error, which a lab judges but no comparison is over."""
    budget_exceeded: int
    errored: int
    skipped: int
    input_tokens: int
    output_tokens: int
    token_runs: int
    """Judged runs that reported both; the two sums are over them."""
    cached_tokens: int
    cached_input: int
    """Input tokens of the runs in `cached_runs`."""
    cached_runs: int
    """Judged runs that reported cached tokens in every turn."""
    compacted: int
    """Judged runs whose context was compacted."""
    walls_ms: tuple[int, ...]
    """The judged runs' times of work."""
    incidents: Mapping[str, int]
    """Over all runs with a result."""
    models: tuple[str, ...]
    """That answered."""


@attrs.frozen(kw_only=True)
class VerifierCount:
    """How often one verifier said the same about the current results of a cell."""

    cell_id: int
    verifier: str
    kind: str
    verdict: str
    count: int


@attrs.frozen(kw_only=True)
class StartGaps:
    """How far apart the two variants of a pair (same case, same repetition) began to work."""

    pairs: int
    """Pairs of which both were judged and say when they began."""
    mean_us: float | None
    longest_us: int | None
    wide: int
    """Pairs further apart than was asked for."""
