"""Claims: handing out a sweep's runs, each to one process at a time.

A claim is a row of `attempt`; its number, one more than the last, is the fencing token. Taking over a dead worker's
run writes nothing about the old attempt: it only claims the next number.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from store.rows import Claim, WorkerRow
from store.sql.leases import drop_dead, renew, worker_row
from store.sql.statements import statement
from store.sql.writer import Writer


class DeadAttempt(NamedTuple):
    """An attempt that nobody will finish; its processes may still run."""

    sweep: str
    """The sweep's name."""
    position: int
    number: int


class Held(NamedTuple):
    """What another living process holds of a sweep. Two looks that differ: something has happened there."""

    host: str
    pid: int
    runs: int
    """Unfinished attempts."""
    first: int
    """The lowest position."""
    newest: int
    """The newest attempt's id."""
    events: int
    """Of all of them."""


class SqliteClaims:
    """Claims of one process in one sweep; implements `orchestrator.engine.ports.Claims`.

    A run is free when it wants doing and no live process holds an unfinished attempt at it. It wants doing when it has
    no result, or one that is to be run again and is older than this object's first look: what this invocation itself
    leaves for later is not tried again by it, for ever.

    Args:
        writer: commits the claims.
        sweep_id: the sweep.
        worker_id: this process.
        wall: microseconds since 1970 UTC.
        monotonic: seconds that no setting of the clock changes and no sleep of the machine adds to. With it a clock
            that was set is noticed: then leases, which were written by the old one, are not taken for expired before
            their holders have had the time to renew them.
        lease_us: how long a process is believed to live after it was last heard of.
        is_alive: whether a worker's process runs; None where this machine cannot know. A process known to be gone
            loses its runs at once, any other when its lease expires.
        errors: results with an infrastructural error are to be run again too.
        cancelled: cancelled runs are to be run again too.
    """

    def __init__(
        self,
        writer: Writer,
        *,
        sweep_id: int,
        worker_id: int,
        wall: Callable[[], int],
        monotonic: Callable[[], float] | None = None,
        lease_us: int,
        is_alive: Callable[[WorkerRow], bool | None],
        errors: bool = False,
        cancelled: bool = False,
    ) -> None:
        self._writer = writer
        self._sweep_id = sweep_id
        self._worker_id = worker_id
        self._wall = wall
        self._monotonic = monotonic
        self._clocks: tuple[int, float] | None = None
        """Both clocks when they were last looked at."""
        self._trusting_until = 0.0
        """Until when, by the monotonic clock, no lease counts as expired."""
        self._lease_us = lease_us
        self._is_alive = is_alive
        self._policy = {"errors": int(errors), "cancelled": int(cancelled)}
        self._high: int | None = None
        self._cursor = 0
        self._expires_at: int | None = None
        """Until when the lease is known to hold; None before the first claim."""
        self._lapsed = False

    async def claim(self, limit: int) -> Sequence[Claim]:
        """Take up to about *limit* runs, whole pair groups, in the stored order; empty when none is free now.

        Renews this process's lease. Returns once the claims are committed.

        Raises:
            StoreFailed: the writer has failed.
        """
        if limit <= 0:
            return ()
        expires_at = self._next_expiry()
        expired_by = 0 if self._trusting() else self._wall()
        claims = await self._writer.transact(lambda connection: self._claim(connection, limit, expires_at, expired_by))
        self._expires_at = expires_at
        return claims

    def renew(self) -> None:
        """Renew this process's lease, without waiting for it.

        Raises:
            StoreFailed: the writer has failed.
        """
        expires_at = self._next_expiry()

        def renewed(_: None) -> None:
            self._expires_at = expires_at

        self._writer.submit(renew(self._worker_id, expires_at), acknowledged=renewed)

    def lapsed(self) -> bool:
        """Whether the lease has run out since `keep` was last asked, as it does when the process was stopped.

        What is claimed and not started may have gone to others since; ask `keep` before starting it.
        """
        self._next_expiry()
        return self._lapsed

    async def keep(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """Those of *claims* that are still this process's. Renews its lease.

        Raises:
            StoreFailed: the writer has failed.
        """

        def job(connection: sqlite3.Connection) -> list[Claim]:
            connection.execute(statement("lease_renew"), (self._worker_id, expires_at))
            return [claim for claim in claims if self._still_held(connection, claim)]

        expires_at = self._next_expiry()
        kept = await self._writer.transact(job)
        self._expires_at, self._lapsed = expires_at, False
        return kept

    async def remaining(self) -> int:
        """Runs of the sweep that want doing, whoever holds them.

        Raises:
            StoreFailed: the writer has failed.
        """

        def job(connection: sqlite3.Connection) -> int:
            (count,) = connection.execute(statement("claim_remaining"), self._question(connection)).fetchone()
            return int(count)

        return await self._writer.transact(job)

    async def others(self) -> tuple[Held, ...]:
        """What other living processes hold of the sweep.

        Raises:
            StoreFailed: the store cannot be read.
        """

        def job(connection: sqlite3.Connection) -> tuple[Held, ...]:
            rows = connection.execute(statement("claim_others"), (self._sweep_id, self._worker_id)).fetchall()
            return tuple(Held(*row) for row in rows)

        return await self._writer.look(job)

    async def dead_attempts(self) -> list[DeadAttempt]:
        """Unfinished attempts at this sweep's runs whose process is known to be gone, in the stored order.

        Raises:
            StoreFailed: the writer has failed.
        """

        def job(connection: sqlite3.Connection) -> list[DeadAttempt]:
            gone: dict[int, bool] = {}
            dead: list[DeadAttempt] = []
            rows = connection.execute(statement("claim_open_attempts"), (self._sweep_id, self._worker_id))
            for name, position, number, worker_id, *columns in rows:
                if worker_id not in gone:
                    gone[worker_id] = self._is_alive(worker_row(tuple(columns))) is False
                if gone[worker_id]:
                    dead.append(DeadAttempt(name, position, number))
            return dead

        return await self._writer.transact(job)

    @staticmethod
    def _still_held(connection: sqlite3.Connection, claim: Claim) -> bool:
        question = {"run": claim.run_id, "number": claim.number, "supersedes": claim.supersedes}
        (held,) = connection.execute(statement("claim_still_held"), question).fetchone()
        return bool(held)

    def _next_expiry(self) -> int:
        """When a lease renewed now will run out; notices when it already has, and when the clock was set."""
        now = self._wall()
        self._notice_jump(now)
        if self._expires_at is not None and now > self._expires_at:
            self._lapsed = True
        return now + self._lease_us

    def _notice_jump(self, now: int) -> None:
        if self._monotonic is None:
            return
        steady = self._monotonic()
        if self._clocks is not None:
            then, steadily = self._clocks
            if abs((now - then) - (steady - steadily) * 1_000_000) > self._lease_us / 4:
                self._trusting_until = steady + self._lease_us / 1_000_000
        self._clocks = now, steady

    def _trusting(self) -> bool:
        return self._monotonic is not None and self._monotonic() < self._trusting_until

    def _question(self, connection: sqlite3.Connection) -> dict[str, Any]:
        if self._high is None:
            (self._high,) = connection.execute(statement("claim_high_water")).fetchone()
        return {"sweep": self._sweep_id, "high": self._high, **self._policy}

    def _claim(self, connection: sqlite3.Connection, limit: int, expires_at: int, expired_by: int) -> list[Claim]:
        now = self._wall()
        connection.execute(statement("lease_renew"), (self._worker_id, expires_at))
        drop_dead(connection, self._worker_id, self._is_alive)
        question = {**self._question(connection), "worker": self._worker_id, "now": expired_by}
        # The cursor only moves forward, so that claiming a whole sweep looks at every run once. What others have lost
        # or given up lies behind it: for that the scan starts over, once nothing is left ahead.
        found = self._free(connection, question, self._cursor, limit)
        if not found and self._cursor:
            found = self._free(connection, question, 0, limit)
        claims: list[Claim] = []
        for run_id, position, pair, cell_id, repetition, case_id, variant, last, supersedes in found:
            cursor = connection.execute(statement("insert_attempt"), (run_id, last + 1, self._worker_id, now))
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
    def _free(
        connection: sqlite3.Connection, question: dict[str, Any], position: int, limit: int
    ) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        cursor = connection.execute(statement("claim_free_runs"), {**question, "position": position})
        for row in cursor:
            if rows and len(rows) >= limit and row[2] != rows[-1][2]:
                break
            rows.append(row)
        cursor.close()  # or the open statement would keep the transaction's snapshot
        return rows
