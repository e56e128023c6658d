"""Measurements of an attempt: the one list of figures, from the executor to the column to the report.

A new figure is a field here, a column (a migration and `insert_outcome.sql`) and a value in
`Attempt.take_measurements` or in one executor; a report that shows it per run also needs it in `read_runs.sql`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from typing import Any


@attrs.frozen(kw_only=True)
class Measurements:
    """The figures of an attempt. Durations are milliseconds, money is nano-USD; None means not measured, never 0.

    Each field is a column of `outcome` of the same name: an integer or a text.
    """

    wall_ms: int | None = None
    """Working time, without waits for permits, caps, retries and the store."""
    waited_ms: int | None = None
    turns: int | None = None
    tool_calls: int | None = None
    calls: int | None = None
    """Requests of the work, retries included."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_nusd: int | None = None
    cost_source: str | None = None
    model_resolved: str | None = None
    """The model that answered last."""

    @classmethod
    def take_from(cls, row: dict[str, Any]) -> Measurements:
        """Take the measurements out of the columns of *row*, which keeps the others."""
        return cls(**{name: row.pop(name) for name in MEASUREMENT_COLUMNS if name in row})

    def to_columns(self) -> dict[str, int | str | None]:
        """Return each figure by the name of its column."""
        return {name: getattr(self, name) for name in MEASUREMENT_COLUMNS}


MEASUREMENT_COLUMNS = tuple(field.name for field in attrs.fields(Measurements))
