"""The single writer of a process, with group commit: many small transactions in, few SQLite transactions out.

The hot path never waits for a commit. Callers queue functions; the loop waits a moment for more of them, takes the
store's lock file once and commits the whole batch. Only then does it resolve waiters and call acknowledgements. The
first failure to write is final: every waiter and every later caller gets `StoreFailed`.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from store.errors import EvalctlError, StoreError, StoreFailed, StoreRefused

if TYPE_CHECKING:
    import asyncio

    import anyio

    from store.sql.database import Database

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]
"""A function that runs inside the writer's transaction, on the database's thread; it must not begin or commit."""

LINGER_S = 0.015
"""Seconds that a batch without waiters waits for more to join it."""
BATCH_ROWS = 2_000
BATCH_BYTES = 8 << 20
HIGH_ROWS = 20_000
"""A larger backlog makes producers wait until half of it is written."""
HIGH_BYTES = 64 << 20
CHECKPOINT_BYTES = 8 << 20
"""Size of the write-ahead log from which on it is copied into the database."""


@attrs.define(eq=False)
class Ticket:
    """A queued function with its callbacks. Its row and byte counts may grow until a batch has taken it."""

    job: Job[Any]
    acknowledged: Callable[[Any], None] | None
    failed: Callable[[StoreFailed], None] | None
    hurry: bool
    what: str
    future: asyncio.Future[Any] | None = None
    taken: bool = False
    rows: int = 0
    size: int = 0


class Writer:
    """Queues transactions and commits them in groups.

    Call all methods on the event loop's thread. Nothing is written unless `run` is running, and only `close` ends it:
    start it in the outermost task group and close in a `finally`.
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
        """Number of SQLite transactions committed so far."""
        self.checkpoints = 0
        """Number of checkpoints made so far."""
        self.lost: Counter[str] = Counter()
        """Counts of transactions that will never be written, by their label; those without a label are left out."""

    def __repr__(self) -> str:
        state = "failed" if self._failure else "ended" if self._ended else "closing" if self._closing else "open"
        return f"<Writer {self._database.path}: {state}, {self._rows} rows waiting>"

    @property
    def backlog(self) -> int:
        """Number of rows queued and not yet committed."""
        return self._rows

    def check(self) -> None:
        """Check that the writer can still write.

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
        """Queue *job* and return at once.

        Args:
            job: runs after everything queued before it, in the same or a later transaction.
            rows: approximate number of rows that it writes.
            size: approximate number of bytes that it writes.
            acknowledged: called on the event loop with the result of *job*, once that is durable.
            failed: called instead if it will never be durable.
            hurry: commit soon, without waiting for more to join the batch.
            what: label under which `lost` counts it if it cannot be written, such as `outcomes`.

        Raises:
            StoreFailed: the writer has failed or has ended.
        """
        self.check()
        ticket = Ticket(job, acknowledged, failed, hurry, what)
        self._queue.append(ticket)
        self.grow(ticket, rows, size)
        if hurry and self._hurry is not None:
            self._hurry.set()
        if self._work is not None:
            self._work.set()
        return ticket

    def grow(self, ticket: Ticket, rows: int, size: int) -> None:
        """Add rows and bytes to the counts of a ticket that no batch has taken yet."""
        ticket.rows += rows
        ticket.size += size
        self._rows += rows
        self._bytes += size
        if self._hurry is not None and (self._rows >= BATCH_ROWS or self._bytes >= BATCH_BYTES):
            self._hurry.set()

    async def transact(self, job: Job[T]) -> T:
        """Queue *job*, wait until it is durable and return its result. Cancelling the wait does not undo it.

        An `EvalctlError` raised by *job* rolls back this job alone and is raised here.

        Raises:
            StoreFailed: the writer has failed or has ended.
        """
        import asyncio

        # The future carries the failure, also after its waiter was cancelled.
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.submit(job, hurry=True).future = future
        return await future

    async def look(self, job: Job[T]) -> T:
        """Run a read-only *job* on the committed state, between two transactions. Never waits for another process.

        Raises:
            StoreFailed: the writer has failed or has ended, or the store cannot be read.
        """
        self.check()
        try:
            return await self._database.run(job)
        except sqlite3.Error as error:
            raise self._describe(error) from error

    def hurry(self, seconds: float) -> None:
        """Limit every wait for another process to *seconds*, because this one is ending; unwritten rows are `lost`."""
        self._database.turnstile.hurry(seconds)

    async def room(self) -> None:
        """Wait until the backlog is small again (backpressure). Usually returns at once.

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
        """Let `run` end after it has written everything queued."""
        self._closing = True
        for event in (self._work, self._hurry):
            if event is not None:
                event.set()

    async def run(self) -> None:
        """Write until closed and drained, or until writing fails.

        Shielded from cancellation: rows of tasks that are being cancelled still have to be written, and cancelling a
        commit does not stop it.
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
        resolved = 0
        try:
            for ticket, (result, refusal) in zip(batch, results, strict=True):
                resolved += 1
                _tell(ticket, result, refusal)
        except BaseException as error:
            # A bug in a callback; the waiters after it must not hang.
            self._fail(error, batch[resolved:])
            raise

    def _transaction(
        self, connection: sqlite3.Connection, batch: list[Ticket]
    ) -> list[tuple[Any, EvalctlError | None]]:
        """Run a batch as one SQLite transaction, then a checkpoint if one is due. Runs on the database's thread."""
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
            # Released here and not by the loop, which may be busy, so that other processes get in as early as possible.
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
            # A reader still needs the older pages: let the log grow, and try again later.
            self._checkpoint_at = size + self._checkpoint_bytes // 2
            return
        # Everything is copied. Truncate the file, but without waiting for a reader that is in the way.
        self._checkpoint_at = self._checkpoint_bytes
        (patience,) = connection.execute("PRAGMA busy_timeout").fetchone()
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            busy, *_rest = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            connection.execute(f"PRAGMA busy_timeout = {patience}")
        if busy:
            # The next commit overwrites the file from its beginning; until then its length says little.
            self._checkpoint_at = size + self._checkpoint_bytes // 2

    async def _last_checkpoint(self) -> None:
        if not self._database.wal or not self.transactions:
            return
        try:
            async with self._database.turnstile.hold():
                await self._database.run(lambda connection: connection.execute("PRAGMA wal_checkpoint(PASSIVE)"))
        except (sqlite3.Error, StoreError) as error:
            # Everything is committed; the next process to open the store reads the WAL.
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
        """Fail every queued ticket, with the writer's failure."""
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
    # A waiter can receive the refusal: roll back this job and keep the others of the batch.
    connection.execute("SAVEPOINT job")
    try:
        result = ticket.job(connection)
    except EvalctlError as refusal:
        connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        return None, refusal
    connection.execute("RELEASE job")
    return result, None
