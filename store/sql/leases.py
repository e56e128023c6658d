"""Leases of worker processes: a process counts as alive as long as it renews its lease.

`lease` is the only table of the store whose rows change. Times are microseconds UTC.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from store.rows import WorkerRow
from store.sql.statements import load_statement


def register_worker(worker: WorkerRow, expires_at: int) -> Callable[[sqlite3.Connection], int]:
    """Make the transaction that registers a worker process with a lease; its result is the worker's id."""

    def insert_worker(connection: sqlite3.Connection) -> int:
        cursor = connection.execute(
            load_statement("insert_worker"),
            (worker.host, worker.pid, worker.boot, worker.born, worker.version, worker.started_at),
        )
        assert cursor.lastrowid is not None
        connection.execute(load_statement("lease_renew"), (cursor.lastrowid, expires_at))
        return cursor.lastrowid

    return insert_worker


def renew_lease(worker_id: int, expires_at: int) -> Callable[[sqlite3.Connection], None]:
    """Make the transaction that renews a lease, even one that another process has ended as dead."""

    def update_lease(connection: sqlite3.Connection) -> None:
        connection.execute(load_statement("lease_renew"), (worker_id, expires_at))

    return update_lease


def end_lease(worker_id: int) -> Callable[[sqlite3.Connection], None]:
    """Make the transaction that ends a lease: the runs that the process still holds are free at once."""

    def delete_lease(connection: sqlite3.Connection) -> None:
        connection.execute(load_statement("lease_end"), (worker_id,))

    return delete_lease


def find_living_workers(
    worker_id: int, is_alive: Callable[[WorkerRow], bool | None]
) -> Callable[[sqlite3.Connection], frozenset[int]]:
    """Make the transaction that finds the workers with a lease that are not known to be gone, the caller included."""

    def select_living(connection: sqlite3.Connection) -> frozenset[int]:
        end_dead_leases(connection, worker_id, is_alive)
        others = connection.execute(load_statement("lease_holders"), (worker_id,)).fetchall()
        return frozenset({worker_id, *(int(row[0]) for row in others)})

    return select_living


def end_dead_leases(
    connection: sqlite3.Connection, worker_id: int, is_alive: Callable[[WorkerRow], bool | None]
) -> list[int]:
    """End the leases of processes known to be gone and return their ids; the caller's own (*worker_id*) stays."""
    others = connection.execute(load_statement("lease_holders"), (worker_id,)).fetchall()
    dead = [int(row[0]) for row in others if is_alive(make_worker_row(row[1:])) is False]
    connection.executemany(load_statement("lease_end"), ((one,) for one in dead))
    return dead


def extend_running_leases(
    connection: sqlite3.Connection,
    worker_id: int,
    is_running: Callable[[WorkerRow], bool],
    *,
    now: int,
    expires_at: int,
) -> None:
    """Extend the expired leases of processes known to run: by their own clock they are in time.

    Their next renewal replaces the extension. *now* and *expires_at* are microseconds UTC of the caller's clock.
    """
    expired = connection.execute(load_statement("lease_expired"), (worker_id, now)).fetchall()
    running = [int(row[0]) for row in expired if is_running(make_worker_row(row[1:]))]
    connection.executemany(load_statement("lease_renew"), ((one, expires_at) for one in running))


def make_worker_row(columns: tuple[str, int, str, int, str, int]) -> WorkerRow:
    """Make a worker from its columns, in the table's order without the id."""
    host, pid, boot, born, version, started_at = columns
    return WorkerRow(host=host, pid=pid, boot=boot, born=born, version=version, started_at=started_at)
