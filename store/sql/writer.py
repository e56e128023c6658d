"""The single writer of a process, with group commit: many small transactions in, few SQLite transactions out.

The hot path never waits for a commit. Callers queue functions; the loop waits a moment for more of them, takes the
store's lock file once and commits the whole batch. Only then does it resolve waiters and call acknowledgements. The
first failure to write is final: every waiter and every later caller gets `StoreFailed`.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from store.errors import EvalctlError, StoreError, StoreFailed, StoreRefused

if TYPE_CHECKING:
    import asyncio

    import anyio

    from store.sql.database import Database

T = TypeVar("T")
Transaction = Callable[[sqlite3.Connection], T]
"""A function that runs inside the writer's transaction, on the database's thread; it must not begin or commit."""

LINGER_S = 0.015
"""Seconds that a batch without waiters waits for more to join it."""
MAX_BATCH_ROWS = 2_000
MAX_BATCH_BYTES = 8 << 20
MAX_BACKLOG_ROWS = 20_000
"""A larger backlog makes producers wait until half of it is written."""
MAX_BACKLOG_BYTES = 64 << 20
CHECKPOINT_BYTES = 8 << 20
"""Size of the write-ahead log from which on it is copied into the database."""


@attrs.define(eq=False)
class QueuedTransaction:
    """A queued function with its callbacks. Its row and byte counts may grow until a batch has taken it."""

    transaction: Transaction[Any]
    on_durable: Callable[[Any], None] | None
    on_failure: Callable[[StoreFailed], None] | None
    urgent: bool
    label: str
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
        self._wal = database.log
        self._queue: deque[QueuedTransaction] = deque()
        self._rows = 0
        self._bytes = 0
        self._closing = False
        self._ended = False
        self._failure: StoreFailed | None = None
        self._work_arrived: anyio.Event | None = None
        self._batch_urgent: anyio.Event | None = None
        self._backlog_small: anyio.Event | None = None
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

    def check_writable(self) -> None:
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
        transaction: Transaction[T],
        *,
        rows: int = 1,
        size: int = 0,
        on_durable: Callable[[T], None] | None = None,
        on_failure: Callable[[StoreFailed], None] | None = None,
        urgent: bool = False,
        label: str = "",
    ) -> QueuedTransaction:
        """Queue *transaction* and return at once.

        Args:
            transaction: runs after everything queued before it, in the same or a later transaction.
            rows: approximate number of rows that it writes.
            size: approximate number of bytes that it writes.
            on_durable: called on the event loop with the result of *transaction*, once that is durable.
            on_failure: called instead if it will never be durable.
            urgent: commit soon, without waiting for more to join the batch.
            label: name under which `lost` counts it if it cannot be written, such as `outcomes`.

        Raises:
            StoreFailed: the writer has failed or has ended.
        """
        self.check_writable()
        ticket = QueuedTransaction(transaction, on_durable, on_failure, urgent, label)
        self._queue.append(ticket)
        self.grow_queued(ticket, rows, size)
        if urgent and self._batch_urgent is not None:
            self._batch_urgent.set()
        if self._work_arrived is not None:
            self._work_arrived.set()
        return ticket

    def grow_queued(self, ticket: QueuedTransaction, rows: int, size: int) -> None:
        """Add rows and bytes to the counts of a ticket that no batch has taken yet."""
        ticket.rows += rows
        ticket.size += size
        self._rows += rows
        self._bytes += size
        if self._batch_urgent is not None and (self._rows >= MAX_BATCH_ROWS or self._bytes >= MAX_BATCH_BYTES):
            self._batch_urgent.set()

    async def submit_and_wait(self, transaction: Transaction[T]) -> T:
        """Queue *transaction*, wait until it is durable and return its result. Cancelling the wait does not undo it.

        An `EvalctlError` raised by *transaction* rolls it back alone and is raised here.

        Raises:
            StoreFailed: the writer has failed or has ended.
        """
        import asyncio  # noqa: PLC0415 - start-up: only running needs an event loop

        # The future carries the failure, also after its waiter was cancelled.
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.submit(transaction, urgent=True).future = future
        return await future

    async def run_query(self, transaction: Transaction[T]) -> T:
        """Run a read-only *transaction* on the committed state, between two others. Never waits for another process.

        Raises:
            StoreFailed: the writer has failed or has ended, or the store cannot be read.
        """
        self.check_writable()
        try:
            return await self._database.run_on_thread(transaction)
        except sqlite3.Error as error:
            raise self._describe_failure(error) from error

    def limit_waits(self, seconds: float) -> None:
        """Limit every wait for another process to *seconds*, because this one is ending; unwritten rows are `lost`."""
        self._database.turnstile.limit_waits(seconds)

    async def wait_for_backlog(self) -> None:
        """Wait until the backlog is small again (backpressure). Usually returns at once.

        Raises:
            StoreFailed: the writer has failed or has ended.
        """
        import anyio  # noqa: PLC0415 - start-up: only running needs an event loop

        self.check_writable()
        if self._rows <= MAX_BACKLOG_ROWS and self._bytes <= MAX_BACKLOG_BYTES:
            return
        if self._backlog_small is None:
            self._backlog_small = anyio.Event()
        await self._backlog_small.wait()
        self.check_writable()

    def close(self) -> None:
        """Let `run` end after it has written everything queued."""
        self._closing = True
        for event in (self._work_arrived, self._batch_urgent):
            if event is not None:
                event.set()

    async def run(self) -> None:
        """Write until closed and drained, or until writing fails.

        Shielded from cancellation: rows of tasks that are being cancelled still have to be written, and cancelling a
        commit does not stop it.
        """
        import anyio  # noqa: PLC0415 - start-up: only running needs an event loop

        with anyio.CancelScope(shield=True):
            try:
                while self._failure is None and await self._has_work():
                    await self._wait_for_batch()
                    await self._commit_batch(self._collect_batch())
                if self._failure is None:
                    await self._checkpoint_at_end()
            finally:
                self._ended = True
                self._abandon_queue()

    # --- the loop's parts ---------------------------------------------------------------------------------------

    async def _has_work(self) -> bool:
        import anyio  # noqa: PLC0415 - start-up: only running needs an event loop

        while not self._queue:
            if self._closing:
                return False
            self._work_arrived = anyio.Event()
            await self._work_arrived.wait()
            self._work_arrived = None
        return True

    async def _wait_for_batch(self) -> None:
        import anyio  # noqa: PLC0415 - start-up: only running needs an event loop

        if self._closing or self._rows >= MAX_BATCH_ROWS or self._bytes >= MAX_BATCH_BYTES:
            return
        if any(ticket.urgent for ticket in self._queue):
            return
        self._batch_urgent = anyio.Event()
        with anyio.move_on_after(self._linger_s):
            await self._batch_urgent.wait()
        self._batch_urgent = None

    def _collect_batch(self) -> list[QueuedTransaction]:
        batch: list[QueuedTransaction] = []
        rows = size = 0
        while self._queue and rows < MAX_BATCH_ROWS and size < MAX_BATCH_BYTES:
            ticket = self._queue.popleft()
            ticket.taken = True
            rows += ticket.rows
            size += ticket.size
            batch.append(ticket)
        return batch

    async def _commit_batch(self, batch: list[QueuedTransaction]) -> None:
        try:
            async with self._database.turnstile.hold():
                results = await self._database.run_on_thread(lambda connection: self._run_batch(connection, batch))
        except (sqlite3.Error, StoreError) as error:
            self._record_failure(error, batch)
            return
        except BaseException as error:
            self._record_failure(error, batch)
            raise
        self.transactions += 1
        for ticket in batch:
            self._rows -= ticket.rows
            self._bytes -= ticket.size
        if (
            self._backlog_small is not None
            and self._rows <= MAX_BACKLOG_ROWS // 2
            and self._bytes <= MAX_BACKLOG_BYTES // 2
        ):
            self._backlog_small.set()
            self._backlog_small = None
        resolved = 0
        try:
            for ticket, (result, refusal) in zip(batch, results, strict=True):
                resolved += 1
                _resolve_waiter(ticket, result, refusal)
        except BaseException as error:
            # A bug in a callback; the waiters after it must not hang.
            self._record_failure(error, batch[resolved:])
            raise

    def _run_batch(
        self, connection: sqlite3.Connection, batch: list[QueuedTransaction]
    ) -> list[tuple[Any, EvalctlError | None]]:
        """Run a batch as one SQLite transaction, then a checkpoint if one is due. Runs on the database's thread."""
        try:
            self._database.check_in_place()
            connection.execute("BEGIN IMMEDIATE")
            try:
                results = [_run_queued(connection, ticket) for ticket in batch]
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

    async def _checkpoint_at_end(self) -> None:
        if not self._database.wal or not self.transactions:
            return
        try:
            async with self._database.turnstile.hold():
                await self._database.run_on_thread(
                    lambda connection: connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
                )
        except (sqlite3.Error, StoreError) as error:
            # Everything is committed; the next process to open the store reads the WAL.
            self._failure = self._describe_failure(error)

    def _describe_failure(self, error: BaseException) -> StoreFailed:
        cause = error.problem if isinstance(error, StoreRefused) else str(error) or type(error).__name__
        name = getattr(error, "sqlite_errorname", None)
        if name == "SQLITE_FULL":
            cause = f"the disk is full ({cause})"
        elif not isinstance(error, sqlite3.Error | StoreError):
            cause = f"{type(error).__name__}: {cause}"
        return StoreFailed(str(self._database.path), f"{cause} [{name}]" if name else cause)

    def _record_failure(self, error: BaseException, batch: list[QueuedTransaction]) -> None:
        self._failure = failure = self._describe_failure(error)
        failure.__cause__ = error
        self._queue.extendleft(reversed(batch))

    def _abandon_queue(self) -> None:
        """Fail every queued ticket, with the writer's failure."""
        failure = self._failure or StoreFailed(str(self._database.path), "the writer has been closed")
        while self._queue:
            ticket = self._queue.popleft()
            ticket.taken = True
            if ticket.label:
                self.lost[ticket.label] += 1
            if ticket.future is not None:
                if not ticket.future.done():
                    ticket.future.set_exception(StoreFailed(failure.path, failure.cause))
            elif ticket.on_failure is not None:
                ticket.on_failure(failure)
        self._rows = self._bytes = 0
        if self._backlog_small is not None:
            self._backlog_small.set()
            self._backlog_small = None


def _resolve_waiter(ticket: QueuedTransaction, result: Any, refusal: EvalctlError | None) -> None:
    if ticket.future is None:
        if ticket.on_durable is not None:
            ticket.on_durable(result)
    elif not ticket.future.done():
        if refusal is None:
            ticket.future.set_result(result)
        else:
            ticket.future.set_exception(refusal)


def _run_queued(connection: sqlite3.Connection, ticket: QueuedTransaction) -> tuple[Any, EvalctlError | None]:
    if ticket.future is None:
        return ticket.transaction(connection), None
    # A waiter can receive the refusal: roll back this job and keep the others of the batch.
    connection.execute("SAVEPOINT job")
    try:
        result = ticket.transaction(connection)
    except EvalctlError as refusal:
        connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        return None, refusal
    connection.execute("RELEASE job")
    return result, None
