"""Claims with fencing tokens: each run of a sweep goes to one process at a time.

A claim is a row of `attempt`; its number, one higher than the last, is the fencing token. Taking over a dead worker's
run leaves the old attempt untouched and claims the next number.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from store.rows import Claim, WorkerRow
from store.sql.leases import end_dead_leases, extend_running_leases, make_worker_row, renew_lease
from store.sql.statements import load_statement
from store.sql.writer import Writer


class DeadAttempt(NamedTuple):
    """An unfinished attempt of a dead worker; processes that it started may still run."""

    sweep: str
    """The sweep's name."""
    position: int
    number: int


class HeldRuns(NamedTuple):
    """The unfinished attempts of another living process. Two readings that differ show progress there."""

    host: str
    pid: int
    runs: int
    """Number of unfinished attempts."""
    first: int
    """The lowest position."""
    newest: int
    """The newest attempt's id."""
    events: int
    """Number of events of all of them."""


class RerunPolicy(NamedTuple):
    """The results after which a run is executed again."""

    errors: bool = False
    """True for infrastructure errors."""
    cancelled: bool = False
    """True for cancellations."""


RERUN_NOTHING = RerunPolicy()


class SqliteClaims:
    """Claims of one process in one sweep; implements `orchestrator.engine.ports.Claims`.

    A run is free if it is due and no live process holds an unfinished attempt at it. It is due if it has no result, or
    one that is to be repeated and is older than this object's first query. So an invocation does not repeat a run that
    it has itself left for later, which could go on without end.

    Args:
        writer: commits the claims.
        sweep_id: the sweep.
        worker_id: this process.
        wall: microseconds since 1970 UTC.
        monotonic: seconds of a clock that cannot be set and that stops while the machine sleeps. It reveals a change
            of the wall clock: leases written before the change then count as valid until their holders have had the
            time to renew them.
        lease_us: duration of a lease in microseconds; a process that has not renewed for longer counts as dead.
        is_alive: checks a worker's process; None if this process cannot know. A process known to be gone loses its
            runs at once.
        is_running: whether a worker's process is known to run and is not stopped. It keeps its runs, even if by this
            process's clock its lease has expired: the clocks may differ. Any other loses them when its lease expires.
        rerun: the results after which a run is executed again.
    """

    def __init__(  # noqa: PLR0913 - two clocks and two questions about workers, all of them replaced in tests
        self,
        writer: Writer,
        *,
        sweep_id: int,
        worker_id: int,
        wall: Callable[[], int],
        monotonic: Callable[[], float] | None = None,
        lease_us: int,
        is_alive: Callable[[WorkerRow], bool | None],
        is_running: Callable[[WorkerRow], bool] = lambda _worker: False,
        rerun: RerunPolicy = RERUN_NOTHING,
    ) -> None:
        self._writer = writer
        self._sweep_id = sweep_id
        self._worker_id = worker_id
        self._wall = wall
        self._monotonic = monotonic
        self._clocks: tuple[int, float] | None = None
        """Both clocks at their last reading."""
        self._trusting_until = 0.0
        """Monotonic time until which no lease counts as expired."""
        self._lease_us = lease_us
        self._is_alive = is_alive
        self._is_running = is_running
        self._retry_policy = {"errors": int(rerun.errors), "cancelled": int(rerun.cancelled)}
        self._high_water: int | None = None
        self._cursor = 0
        self._expires_at: int | None = None
        """Expiry of this process's lease as last committed; None before the first claim."""
        self._lapsed = False

    async def claim_runs(self, limit: int) -> Sequence[Claim]:
        """Claim up to about *limit* runs, in whole pair groups and in the run order; empty if none is free now.

        Renews this process's lease. Returns once the claims are committed.

        Raises:
            StoreFailed: the writer has failed.
        """
        if limit <= 0:
            return ()
        expires_at = self._compute_expiry()
        expired_by = 0 if self._trusts_leases() else self._wall()
        claims = await self._writer.submit_and_wait(
            lambda connection: self._insert_claims(connection, limit, expires_at, expired_by)
        )
        self._expires_at = expires_at
        return claims

    def renew_lease(self) -> None:
        """Renew this process's lease without waiting for the commit.

        Raises:
            StoreFailed: the writer has failed.
        """
        expires_at = self._compute_expiry()

        def record_expiry(_: None) -> None:
            self._expires_at = expires_at

        self._writer.submit(renew_lease(self._worker_id, expires_at), on_durable=record_expiry)

    def has_lapsed(self) -> bool:
        """Return whether the lease has expired since claims were last confirmed, as it does in a stopped process.

        Other processes may have taken over claims that have not started yet; confirm them before starting one.
        """
        self._compute_expiry()
        return self._lapsed

    async def confirm_claims(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """Return those of *claims* that this process still holds. Renews its lease.

        Raises:
            StoreFailed: the writer has failed.
        """

        def renew_and_filter(connection: sqlite3.Connection) -> list[Claim]:
            connection.execute(load_statement("lease_renew"), (self._worker_id, expires_at))
            return [claim for claim in claims if self._is_still_held(connection, claim)]

        expires_at = self._compute_expiry()
        kept = await self._writer.submit_and_wait(renew_and_filter)
        self._expires_at, self._lapsed = expires_at, False
        return kept

    async def count_remaining(self) -> int:
        """Count the runs of the sweep that are due, whichever process holds them.

        Raises:
            StoreFailed: the writer has failed.
        """

        def count_runs(connection: sqlite3.Connection) -> int:
            (count,) = connection.execute(
                load_statement("claim_remaining"), self._build_query_values(connection)
            ).fetchone()
            return int(count)

        return await self._writer.submit_and_wait(count_runs)

    async def list_other_holders(self) -> tuple[HeldRuns, ...]:
        """List the runs that other living processes hold.

        Raises:
            StoreFailed: the store cannot be read.
        """

        def select_holders(connection: sqlite3.Connection) -> tuple[HeldRuns, ...]:
            rows = connection.execute(load_statement("claim_others"), (self._sweep_id, self._worker_id)).fetchall()
            return tuple(HeldRuns(*row) for row in rows)

        return await self._writer.run_query(select_holders)

    async def list_dead_attempts(self) -> list[DeadAttempt]:
        """List the unfinished attempts whose process is known to be gone, in the run order.

        Raises:
            StoreFailed: the writer has failed.
        """

        def select_dead(connection: sqlite3.Connection) -> list[DeadAttempt]:
            gone: dict[int, bool] = {}
            dead: list[DeadAttempt] = []
            rows = connection.execute(load_statement("claim_open_attempts"), (self._sweep_id, self._worker_id))
            for name, position, number, worker_id, *columns in rows:
                if worker_id not in gone:
                    gone[worker_id] = self._is_alive(make_worker_row(tuple(columns))) is False
                if gone[worker_id]:
                    dead.append(DeadAttempt(name, position, number))
            return dead

        return await self._writer.submit_and_wait(select_dead)

    @staticmethod
    def _is_still_held(connection: sqlite3.Connection, claim: Claim) -> bool:
        question = {"run": claim.run_id, "number": claim.number, "supersedes": claim.supersedes}
        (held,) = connection.execute(load_statement("claim_still_held"), question).fetchone()
        return bool(held)

    def _compute_expiry(self) -> int:
        """Compute the expiry of a lease renewed now; notice an expired lease and a change of the wall clock."""
        now = self._wall()
        self._notice_clock_jump(now)
        if self._expires_at is not None and now > self._expires_at:
            self._lapsed = True
        return now + self._lease_us

    def _notice_clock_jump(self, now: int) -> None:
        if self._monotonic is None:
            return
        steady = self._monotonic()
        if self._clocks is not None:
            then, steadily = self._clocks
            if abs((now - then) - (steady - steadily) * 1_000_000) > self._lease_us / 4:
                self._trusting_until = steady + self._lease_us / 1_000_000
        self._clocks = now, steady

    def _trusts_leases(self) -> bool:
        return self._monotonic is not None and self._monotonic() < self._trusting_until

    def _build_query_values(self, connection: sqlite3.Connection) -> dict[str, Any]:
        if self._high_water is None:
            (self._high_water,) = connection.execute(load_statement("claim_high_water")).fetchone()
        return {"sweep": self._sweep_id, "high": self._high_water, **self._retry_policy}

    def _insert_claims(
        self, connection: sqlite3.Connection, limit: int, expires_at: int, expired_by: int
    ) -> list[Claim]:
        now = self._wall()
        connection.execute(load_statement("lease_renew"), (self._worker_id, expires_at))
        end_dead_leases(connection, self._worker_id, self._is_alive)
        extend_running_leases(connection, self._worker_id, self._is_running, now=now, expires_at=expires_at)
        question = {**self._build_query_values(connection), "worker": self._worker_id, "now": expired_by}
        # The cursor only moves forward, so that claiming a whole sweep reads every run once. Runs that other processes
        # lost or gave up lie behind it: the scan starts over for them once nothing is left ahead.
        found = self._select_free_runs(connection, question, self._cursor, limit)
        if not found and self._cursor:
            found = self._select_free_runs(connection, question, 0, limit)
        claims: list[Claim] = []
        for run_id, position, pair, cell_id, repetition, case_id, variant, last, supersedes in found:
            cursor = connection.execute(load_statement("insert_attempt"), (run_id, last + 1, self._worker_id, now))
            assert cursor.lastrowid is not None
            claims.append(
                Claim(
                    attempt_id=cursor.lastrowid,
                    run_id=run_id,
                    sweep_id=self._sweep_id,
                    cell_id=cell_id,
                    case_id=case_id,
                    variant=variant,
                    position=position,
                    repetition=repetition,
                    pair=pair,
                    number=last + 1,
                    supersedes=supersedes,
                    claimed_at=now,
                )
            )
        if claims:
            self._cursor = claims[-1].position + 1
        return claims

    @staticmethod
    def _select_free_runs(
        connection: sqlite3.Connection, question: dict[str, Any], position: int, limit: int
    ) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        cursor = connection.execute(load_statement("claim_free_runs"), {**question, "position": position})
        for row in cursor:
            if rows and len(rows) >= limit and row[2] != rows[-1][2]:
                break
            rows.append(row)
        cursor.close()  # an open statement would keep the transaction's snapshot
        return rows
