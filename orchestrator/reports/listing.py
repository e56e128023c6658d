"""A listing with one line per run in the stored order, which `show SWEEP --runs` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from orchestrator.text import format_count, one_line
from store.rows import CellRecord, RunRecord, SweepRow

if TYPE_CHECKING:
    from store.sql.reader import Reader


def listing_lines(reader: Reader, sweep: SweepRow) -> Iterator[str]:
    """Yield a line per run: position, task, repetition, outcome, wall time and turns."""
    cells = {cell.id: cell for cell in reader.list_cells(sweep.id)}
    width = max((len(_cell_name(cell)) for cell in cells.values()), default=0)
    digits = len(str(sweep.runs))
    for run in reader.iterate_runs(sweep.id):
        name = f"{_cell_name(cells[run.cell_id]):<{width}}"
        yield f"{run.position:>{digits}}  {name}  #{run.repetition:<4} {_describe_outcome(run)}"


def _cell_name(cell: CellRecord) -> str:
    return one_line(f"{cell.case_id} [{cell.variant}]" if cell.variant else cell.case_id)


def _describe_outcome(run: RunRecord) -> str:
    if run.outcome is None:
        return "no result yet" + (f", {format_count(run.attempts, 'attempt')}" if run.attempts else "")
    word = run.outcome if run.reason is None else f"{run.outcome}({run.reason})"
    wall_ms, turns = run.measured.wall_ms, run.measured.turns
    figures = [f"{wall_ms / 1000:.3f} s"] if wall_ms is not None else []
    figures += [format_count(turns, "turn")] if turns is not None else []
    figures += [f"attempt {run.attempt_number} of {run.attempts}"] if run.attempts > 1 else []
    return "  ".join([f"{one_line(word):<24}", *figures]).rstrip()
