"""What `--json` prints while a sweep runs: one record per run."""

from __future__ import annotations

from pathlib import Path

from orchestrator.cli.common import print_data
from orchestrator.cli.streams import OutputLost
from orchestrator.reports import runs_jsonl
from store.rows import CellRecord, RunRecord, SweepRow
from store.sql.reader import Reader


class Records:
    """One line per run on stdout, as soon as its result is durable."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._reader: Reader | None = None
        self._row: SweepRow | None = None
        self._cells: dict[int, CellRecord] = {}
        self._told: set[int] = set()
        self._lost: OutputLost | BrokenPipeError | None = None

    def print_run(self, name: str, position: int) -> None:
        """Print the record of one run. When nobody can read it any more the sweep goes on; `tell_rest` complains."""
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

    def tell_rest(self, reader: Reader, row: SweepRow) -> None:
        """Print the records of runs that were not told yet: those of other processes and of earlier times.

        Raises:
            OutputLost, BrokenPipeError: now, or when a run was told.
        """
        if self._lost is not None:
            raise self._lost
        self._cells = {cell.id: cell for cell in reader.list_cells(row.id)}
        for run in reader.iterate_runs(row.id):
            if run.outcome is not None and run.position not in self._told:
                self._print_record(row, run)
        if self._reader is not None:
            self._reader.close()

    def _print_record(self, row: SweepRow, run: RunRecord) -> None:
        self._told.add(run.position)
        print_data(runs_jsonl.run_line(row, run, self._cells[run.cell_id]))
