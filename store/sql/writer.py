"""The single writer of a process: many small jobs in, few transactions out.

Nobody on the hot path waits for a commit. Jobs are queued; the loop collects what is queued, lingers a moment for more,
passes the turnstile once and commits everything in one transaction. Only then are waiters resolved and acknowledgements
given. The first failure to write is final: every waiter and every later producer gets `StoreFailed`.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from store.errors import EvalctlError, StoreError, StoreFailed, StoreRefused

if TYPE_CHECKING:
    import asyncio

    import anyio

    from store.sql.database import Database

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]
"""A piece of a transaction; runs on the database's thread and must not begin or commit."""

LINGER_S = 0.015
"""How long a batch waits for company when nobody waits for it."""
BATCH_ROWS = 2_000
BATCH_BYTES = 8 << 20
HIGH_ROWS = 20_000
"""A backlog of more rows than this makes `room` wait until half of it is gone."""
HIGH_BYTES = 64 << 20
CHECKPOINT_BYTES = 8 << 20
"""Size of the WAL from which it is copied into the database."""


class Ticket:
    """A queued job. Until it is `taken` into a batch it may still grow."""

    __slots__ = ("acknowledged", "failed", "future", "hurry", "job", "rows", "size", "taken", "what")

    def __init__(self, job: Job[Any], rows: int, size: int) -> None:
        self.job = job
        self.rows = rows
        self.size = size
        self.taken = False
        self.hurry = False
        self.future: asyncio.Future[Any] | None = None
        self.acknowledged: Callable[[Any], None] | None = None
        self.failed: Callable[[StoreFailed], None] | None = None
        self.what = ""


class Writer:
    """Collects jobs and commits them in groups.

    All methods belong to the event loop's thread. `run` must be running for anything to be written, and only `close`
    ends it: start it in the outermost task group and close in a `finally`.
    """

    def __init__(
        self, database: Database, *, linger_s: float = LINGER_S, checkpoint_bytes: int = CHECKPOINT_BYTES
    ) -> None:
        self._database = database
        self._linger_s = linger_s
        self._checkpoint_bytes = checkpoint_bytes
        self._checkpoint_at = checkpoint_bytes
        self._wal = Path(f"{database.path}-wal")
        self._queue: deque[Ticket] = deque()
        self._rows = 0
        self._bytes = 0
        self._closing = False
        self._ended = False
        self._failure: StoreFailed | None = None
        self._work: anyio.Event | None = None
        self._hurry: anyio.Event | None = None
        self._room: anyio.Event | None = None
        self.transactions = 0
        """Committed so far."""
        self.checkpoints = 0
        """Checkpoints made so far."""
        self.lost: Counter[str] = Counter()
        """What was offered and will never be written, counted by what it is; only of jobs that say what they are."""

    def __repr__(self) -> str:
        state = "failed" if self._failure else "ended" if self._ended else "closing" if self._closing else "open"
        return f"<Writer {self._database.path}: {state}, {self._rows} rows waiting>"

    @property
    def backlog(self) -> int:
        """Rows offered and not committed yet."""
        return self._rows

    def check(self) -> None:
        """Raise if nothing can be written any more.

        Raises:
            StoreFailed: the writer has failed or has ended.
        """
        if self._failure is not None:
            raise StoreFailed(self._failure.path, self._failure.cause)
        if self._ended:
            raise StoreFailed(str(self._database.path), "the writer has been closed")

    def submit(
        self,
        job: Job[T],
        *,
        rows: int = 1,
        size: int = 0,
        acknowledged: Callable[[T], None] | None = None,
        failed: Callable[[StoreFailed], None] | None = None,
        hurry: bool = False,
        what: str = "",
    ) -> Ticket:
        """Queue *job*; nobody waits.

        Args:
            job: runs after everything queued before it, in the same or a later transaction.
            rows: about how many rows it writes.
            size: about how many bytes it writes.
            acknowledged: called with the job's result, on the event loop, once it is durable.
            failed: called instead when it never will be.
            hurry: somebody waits for it; the batch does not linger.
            what: what people call it, to be counted in `lost` when it cannot be written.

        Raises:
            StoreFailed: the writer has failed or has ended.
        """
        self.check()
        ticket = Ticket(job, 0, 0)
        ticket.acknowledged = acknowledged
        ticket.failed = failed
        ticket.hurry = hurry
        ticket.what = what
        self._queue.append(ticket)
        self.grow(ticket, rows, size)
        if hurry and self._hurry is not None:
            self._hurry.set()
        if self._work is not None:
            self._work.set()
        return ticket

    def grow(self, ticket: Ticket, rows: int, size: int) -> None:
        """Count more rows and bytes for a ticket that has not been taken yet."""
        ticket.rows += rows
        ticket.size += size
        self._rows += rows
        self._bytes += size
        if self._hurry is not None and (self._rows >= BATCH_ROWS or self._bytes >= BATCH_BYTES):
            self._hurry.set()

    async def transact(self, job: Job[T]) -> T:
        """Queue *job* and wait until it is durable. Cancelling the wait does not take the job back.

        An `EvalctlError` that the job raises undoes this job alone and is raised here.

        Raises:
            StoreFailed: the writer has failed or has ended.
        """
        import asyncio

        # The failure is told by the future, also to a job that nobody awaits any more.
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.submit(job, hurry=True).future = future
        return await future

    async def look(self, job: Job[T]) -> T:
        """Run a *job* that only reads, between two transactions, on what is committed. It waits for no other process.

        Raises:
            StoreFailed: the writer has failed or has ended, or the store cannot be read.
        """
        self.check()
        try:
            return await self._database.run(job)
        except sqlite3.Error as error:
            raise self._describe(error) from error

    def hurry(self, seconds: float) -> None:
        """The process is to end: wait no longer than so many seconds for another one; what is not written is `lost`."""
        self._database.turnstile.hurry(seconds)

    async def room(self) -> None:
        """Wait until the backlog is small again. Usually returns at once.

        Raises:
            StoreFailed: the writer has failed or has ended.
        """
        import anyio

        self.check()
        if self._rows <= HIGH_ROWS and self._bytes <= HIGH_BYTES:
            return
        if self._room is None:
            self._room = anyio.Event()
        await self._room.wait()
        self.check()

    def close(self) -> None:
        """Let `run` end once everything queued is written."""
        self._closing = True
        for event in (self._work, self._hurry):
            if event is not None:
                event.set()

    async def run(self) -> None:
        """Write until closed and drained, or until writing fails.

        Cancellation does not reach it: rows of tasks that are just being cancelled still have to be written, and a
        cancelled commit would commit all the same.
        """
        import anyio

        with anyio.CancelScope(shield=True):
            try:
                while self._failure is None and await self._has_work():
                    await self._linger()
                    await self._commit(self._collect())
                if self._failure is None:
                    await self._last_checkpoint()
            finally:
                self._ended = True
                self._abandon()

    # --- the loop's parts ---------------------------------------------------------------------------------------

    async def _has_work(self) -> bool:
        import anyio

        while not self._queue:
            if self._closing:
                return False
            self._work = anyio.Event()
            await self._work.wait()
            self._work = None
        return True

    async def _linger(self) -> None:
        import anyio

        if self._closing or self._rows >= BATCH_ROWS or self._bytes >= BATCH_BYTES:
            return
        if any(ticket.hurry for ticket in self._queue):
            return
        self._hurry = anyio.Event()
        with anyio.move_on_after(self._linger_s):
            await self._hurry.wait()
        self._hurry = None

    def _collect(self) -> list[Ticket]:
        batch: list[Ticket] = []
        rows = size = 0
        while self._queue and rows < BATCH_ROWS and size < BATCH_BYTES:
            ticket = self._queue.popleft()
            ticket.taken = True
            rows += ticket.rows
            size += ticket.size
            batch.append(ticket)
        return batch

    async def _commit(self, batch: list[Ticket]) -> None:
        try:
            async with self._database.turnstile.hold():
                results = await self._database.run(lambda connection: self._transaction(connection, batch))
        except (sqlite3.Error, StoreError) as error:
            self._fail(error, batch)
            return
        except BaseException as error:
            self._fail(error, batch)
            raise
        self.transactions += 1
        for ticket in batch:
            self._rows -= ticket.rows
            self._bytes -= ticket.size
        if self._room is not None and self._rows <= HIGH_ROWS // 2 and self._bytes <= HIGH_BYTES // 2:
            self._room.set()
            self._room = None
        told = 0
        try:
            for ticket, (result, refusal) in zip(batch, results, strict=True):
                told += 1
                _tell(ticket, result, refusal)
        except BaseException as error:
            # A bug of whoever listens; the others must not wait for ever.
            self._fail(error, batch[told:])
            raise

    def _transaction(
        self, connection: sqlite3.Connection, batch: list[Ticket]
    ) -> list[tuple[Any, EvalctlError | None]]:
        """One BEGIN IMMEDIATE .. COMMIT, and the checkpoint when it is due. On the database's thread."""
        try:
            self._database.check_in_place()
            connection.execute("BEGIN IMMEDIATE")
            try:
                results = [_perform(connection, ticket) for ticket in batch]
                connection.execute("COMMIT")
            except BaseException:
                # Some failures (a full disk) have rolled back already.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            self._checkpoint_if_due(connection)
            return results
        finally:
            # Left here and not by the loop, which may be busy, so that others pass as early as possible.
            self._database.turnstile.release()

    def _checkpoint_if_due(self, connection: sqlite3.Connection) -> None:
        if not self._database.wal:
            return
        try:
            size = self._wal.stat().st_size
        except FileNotFoundError:
            return
        if size < self._checkpoint_at:
            return
        _busy, pages, copied = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        self.checkpoints += 1
        if pages > copied:
            # A reader still needs the older pages: grow on, and try again when it is worth it.
            self._checkpoint_at = size + self._checkpoint_bytes // 2
            return
        # Everything is copied. Cut the file, unless a reader is in the way: it is waited for not at all.
        self._checkpoint_at = self._checkpoint_bytes
        (patience,) = connection.execute("PRAGMA busy_timeout").fetchone()
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            busy, *_rest = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            connection.execute(f"PRAGMA busy_timeout = {patience}")
        if busy:
            # The next commit starts the file over from its beginning; its length says little until then.
            self._checkpoint_at = size + self._checkpoint_bytes // 2

    async def _last_checkpoint(self) -> None:
        if not self._database.wal or not self.transactions:
            return
        try:
            async with self._database.turnstile.hold():
                await self._database.run(lambda connection: connection.execute("PRAGMA wal_checkpoint(PASSIVE)"))
        except (sqlite3.Error, StoreError) as error:
            # Everything is committed; whoever opens the store next reads the WAL.
            self._failure = self._describe(error)

    def _describe(self, error: BaseException) -> StoreFailed:
        cause = error.problem if isinstance(error, StoreRefused) else str(error) or type(error).__name__
        name = getattr(error, "sqlite_errorname", None)
        if name == "SQLITE_FULL":
            cause = f"the disk is full ({cause})"
        elif not isinstance(error, sqlite3.Error | StoreError):
            cause = f"{type(error).__name__}: {cause}"
        return StoreFailed(str(self._database.path), f"{cause} [{name}]" if name else cause)

    def _fail(self, error: BaseException, batch: list[Ticket]) -> None:
        self._failure = failure = self._describe(error)
        failure.__cause__ = error
        self._queue.extendleft(reversed(batch))

    def _abandon(self) -> None:
        """Tell everybody who still waits that it will not happen."""
        failure = self._failure or StoreFailed(str(self._database.path), "the writer has been closed")
        while self._queue:
            ticket = self._queue.popleft()
            ticket.taken = True
            if ticket.what:
                self.lost[ticket.what] += 1
            if ticket.future is not None:
                if not ticket.future.done():
                    ticket.future.set_exception(StoreFailed(failure.path, failure.cause))
            elif ticket.failed is not None:
                ticket.failed(failure)
        self._rows = self._bytes = 0
        if self._room is not None:
            self._room.set()
            self._room = None


def _tell(ticket: Ticket, result: Any, refusal: EvalctlError | None) -> None:
    if ticket.future is None:
        if ticket.acknowledged is not None:
            ticket.acknowledged(result)
    elif not ticket.future.done():
        if refusal is None:
            ticket.future.set_result(result)
        else:
            ticket.future.set_exception(refusal)


def _perform(connection: sqlite3.Connection, ticket: Ticket) -> tuple[Any, EvalctlError | None]:
    if ticket.future is None:
        return ticket.job(connection), None
    # Somebody waits and can be told: a refusal undoes this job and leaves the others of the batch alone.
    connection.execute("SAVEPOINT job")
    try:
        result = ticket.job(connection)
    except EvalctlError as refusal:
        connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        return None, refusal
    connection.execute("RELEASE job")
    return result, None
