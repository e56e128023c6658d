"""Stores a sweep's plan before its first run, and finds cases whose content changed without a new version."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence

from store.documents.encoding import encode_json
from store.documents.text import to_column
from store.errors import UsageError
from store.rows import CellRow, NewSweep
from store.secrets.redactor import Redactor
from store.sql.statements import load_statement


def store_plan(sweep: NewSweep, redactor: Redactor | None = None) -> Callable[[sqlite3.Connection], int]:
    """Make the transaction that stores a sweep with its cells and runs; its result is the sweep's id.

    Args:
        sweep: the plan. Cells that the store already has, by digest, are reused.
        redactor: removes secrets from the command line and the conditions.

    Raises:
        UsageError: from the transaction, if a sweep of this name exists.
    """
    conditions = dict(sweep.conditions)
    command = sweep.command
    if redactor is not None:
        conditions = redactor.redact_json(conditions)
        command = redactor.redact_text(command)

    def insert_plan(connection: sqlite3.Connection) -> int:
        if connection.execute(load_statement("sweep_by_name"), (sweep.name,)).fetchone():
            raise UsageError(f"a sweep named {sweep.name} exists already")
        cells = _insert_cells(connection, sweep)
        cursor = connection.execute(
            load_statement("insert_sweep"),
            (
                sweep.name,
                to_column(command),
                sweep.purpose,
                sweep.suite_id,
                sweep.mode,
                sweep.seed,
                sweep.repetitions,
                sweep.planned_at,
                len(sweep.runs),
                encode_json(conditions),
            ),
        )
        sweep_id = cursor.lastrowid
        assert sweep_id is not None
        connection.executemany(
            load_statement("insert_run"),
            ((sweep_id, run.position, cells[run.cell], run.repetition, run.pair) for run in sweep.runs),
        )
        return sweep_id

    return insert_plan


def find_changed_cases(cells: Sequence[CellRow]) -> Callable[[sqlite3.Connection], list[str]]:
    """Make the transaction that lists, sorted, the cases whose content changed while their version did not."""

    def compare_content(connection: sqlite3.Connection) -> list[str]:
        changed = set()
        for cell in cells:
            newest = connection.execute(load_statement("cell_newest"), (cell.fingerprint,)).fetchone()
            if newest and json.loads(newest[0]).get("content") != json.loads(cell.document)["content"]:
                changed.add(cell.case_id)
        return sorted(changed)

    return compare_content


def _insert_cells(connection: sqlite3.Connection, sweep: NewSweep) -> list[int]:
    """Return the ids of the plan's cells, in its order; insert those that are new."""
    ids: list[int] = []
    for cell in sweep.cells:
        # Looked up first: the guard of an append-only table aborts INSERT OR IGNORE as well.
        found = connection.execute(load_statement("cell_by_digest"), (cell.digest,)).fetchone()
        if found:
            ids.append(int(found[0]))
            continue
        cursor = connection.execute(
            load_statement("insert_cell"),
            (
                cell.digest,
                cell.fingerprint,
                cell.fingerprint_version,
                cell.config_hash,
                cell.suite_id,
                cell.suite_version,
                cell.case_id,
                cell.case_version,
                cell.variant,
                cell.target,
                cell.model,
                cell.pack,
                cell.profile,
                cell.document,
            ),
        )
        assert cursor.lastrowid is not None
        ids.append(cursor.lastrowid)
    return ids
