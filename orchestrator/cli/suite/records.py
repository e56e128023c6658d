"""The records of runs that `--json` prints while a sweep runs."""

from __future__ import annotations

from pathlib import Path

from orchestrator.cli.common import print_data
from orchestrator.cli.streams import OutputLost
from orchestrator.reports import runs_jsonl
from store.rows import CellRecord, RunRecord, SweepRow
from store.sql.reader import Reader


class Records:
    """Printer of one line per run, as soon as the result is durable."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._reader: Reader | None = None
        self._row: SweepRow | None = None
        self._cells: dict[int, CellRecord] = {}
        self._printed: set[int] = set()
        self._lost: OutputLost | BrokenPipeError | None = None

    def print_run(self, name: str, position: int) -> None:
        """Print the record of one run. If stdout is lost, the sweep goes on and `print_rest` raises the error later."""
        if self._lost is not None:
            return
        if self._reader is None or self._row is None:
            self._reader = Reader(self._store)
            self._row = self._reader.find_sweep(name)
            self._cells = {cell.id: cell for cell in self._reader.list_cells(self._row.id)}
        self._reader.refresh_snapshot()
        try:
            self._print_record(self._row, self._reader.find_run(self._row.id, position))
        except (OutputLost, BrokenPipeError) as lost:
            self._lost = lost

    def print_rest(self, reader: Reader, row: SweepRow) -> None:
        """Print the records not yet printed: those of other processes and of earlier ones.

        Raises:
            OutputLost, BrokenPipeError: stdout is lost, now or during an earlier record.
        """
        if self._lost is not None:
            raise self._lost
        self._cells = {cell.id: cell for cell in reader.list_cells(row.id)}
        for run in reader.iterate_runs(row.id):
            if run.outcome is not None and run.position not in self._printed:
                self._print_record(row, run)
        if self._reader is not None:
            self._reader.close()

    def _print_record(self, row: SweepRow, run: RunRecord) -> None:
        self._printed.add(run.position)
        print_data(runs_jsonl.run_line(row, run, self._cells[run.cell_id]))
