"""Workers and their leases: a process is believed to live as long as it renews its lease.

`lease` is the one table of the store that changes. Times are microseconds UTC.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from store.rows import WorkerRow
from store.sql.statements import statement


def register(worker: WorkerRow, expires_at: int) -> Callable[[sqlite3.Connection], int]:
    """The job that introduces a process, with a lease; its result is the worker's id."""

    def job(connection: sqlite3.Connection) -> int:
        cursor = connection.execute(
            statement("insert_worker"),
            (worker.host, worker.pid, worker.boot, worker.born, worker.version, worker.started_at),
        )
        assert cursor.lastrowid is not None
        connection.execute(statement("lease_renew"), (cursor.lastrowid, expires_at))
        return cursor.lastrowid

    return job


def renew(worker_id: int, expires_at: int) -> Callable[[sqlite3.Connection], None]:
    """The job that renews a lease, also one that another process has taken for dead."""

    def job(connection: sqlite3.Connection) -> None:
        connection.execute(statement("lease_renew"), (worker_id, expires_at))

    return job


def leave(worker_id: int) -> Callable[[sqlite3.Connection], None]:
    """The job that gives a lease up: what the process still holds is free at once."""

    def job(connection: sqlite3.Connection) -> None:
        connection.execute(statement("lease_end"), (worker_id,))

    return job


def living(
    worker_id: int, is_alive: Callable[[WorkerRow], bool | None]
) -> Callable[[sqlite3.Connection], frozenset[int]]:
    """The job that tells which processes hold a lease and are not known to be gone, the caller's own included."""

    def job(connection: sqlite3.Connection) -> frozenset[int]:
        drop_dead(connection, worker_id, is_alive)
        others = connection.execute(statement("lease_holders"), (worker_id,)).fetchall()
        return frozenset({worker_id, *(int(row[0]) for row in others)})

    return job


def drop_dead(
    connection: sqlite3.Connection, worker_id: int, is_alive: Callable[[WorkerRow], bool | None]
) -> list[int]:
    """End the leases of processes that are known to be gone; their ids. The caller's own (*worker_id*) stays."""
    others = connection.execute(statement("lease_holders"), (worker_id,)).fetchall()
    dead = [int(row[0]) for row in others if is_alive(worker_row(row[1:])) is False]
    connection.executemany(statement("lease_end"), ((one,) for one in dead))
    return dead


def worker_row(columns: tuple[str, int, str, int, str, int]) -> WorkerRow:
    """A worker from its columns, in the table's order without the id."""
    host, pid, boot, born, version, started_at = columns
    return WorkerRow(host=host, pid=pid, boot=boot, born=born, version=version, started_at=started_at)
