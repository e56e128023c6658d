"""Allotments: blocks of a sweep's spending caps that each process takes, and reserves from in memory.

A process takes blocks from the caps (rows of `spend`, which carry the running totals) and reserves from its block in
memory, so that a request normally does not wait for a commit. An allotment counts as spent until it is returned: all
allotments together never exceed a cap, and the unused rest of a dead process is lost. So a block is no larger than the
requests in flight and the next one of each can need.

A `settle` row returns the whole balance of its process, so a process whose last row is a `settle` holds nothing that
others could wait for.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from typing import Literal

import attrs

from store.errors import CapExhausted, StoreFailed
from store.rows import Amount, Caps
from store.sql.statements import load_statement
from store.sql.writer import Writer

POLL_S = 0.5
"""Interval in seconds at which a request that waits for other processes asks again."""
IDLE_S = 1.0
"""Seconds for which a process without a request in flight keeps its balance."""
MAX_BLOCK = Amount(calls=200, tokens=2_000_000, nusd=5_000_000_000)
"""Largest allotment at once, unless a single request needs more."""
ROUNDS_AHEAD = 2
"""A block is at most this many times the bounds of all requests in flight and in the queue."""
BLOCK_DIVISOR = 4
"""A block is at most the rest of the cap divided by this and by the live processes, so blocks shrink near the cap."""

MAX_ID = 2**63 - 1

Dimension = Literal["calls", "tokens", "nusd"]
_DIMENSIONS: tuple[Dimension, ...] = ("calls", "tokens", "nusd")
_CAP_FLAGS: dict[Dimension, Literal["max-calls", "max-tokens", "max-cost-usd"]] = {
    "calls": "max-calls",
    "tokens": "max-tokens",
    "nusd": "max-cost-usd",
}


@attrs.frozen(kw_only=True)
class _AllotmentRequest:
    """A request for an allotment, with the process's state. Amounts are in capped dimensions only."""

    returned: Amount
    """Taken out of the balance to be returned; a negative part was spent beyond the allotment."""
    extra: Amount
    """Spent in dimensions without a cap."""
    balance: Amount
    """The balance after taking out `returned`."""
    queue_head: Amount | None
    """The bound of the first request in the queue; None if the queue is empty."""
    queue_total: Amount
    """The sum of the bounds of all requests in the queue."""
    in_flight: Amount
    """The sum of the bounds of all requests in flight."""
    idle: bool
    """True if nothing is in flight: the whole balance is returned, and only other processes could still return some."""
    wants_block: bool
    """True if a block is wanted; False to only return a balance."""


@attrs.frozen(kw_only=True)
class _AllotmentReply:
    """The store's reply to a request for an allotment."""

    granted: Amount
    short_cap: Dimension | None = None
    """The cap that cannot cover the first request; None if it was covered."""
    may_be_returned: bool = False
    """True if another live process may still return a balance."""
    request: _AllotmentRequest


@attrs.define(eq=False)
class _Waiter:
    bound: Amount
    future: asyncio.Future[None]


class SqliteAllotments:
    """One process's share of a sweep's spending caps; implements `orchestrator.engine.ports.Allotments`.

    Without caps nothing is written and nothing waits.

    Args:
        writer: commits the blocks.
        sweep_id: the sweep.
        worker_id: this process.
        caps: totals for the whole sweep, earlier spending included.
        wall: microseconds since 1970 UTC.
        block: largest allotment at once.
        poll_s: interval at which a request that waits for other processes asks again.
        idle_s: time for which a process without a request in flight keeps its balance.
    """

    def __init__(
        self,
        writer: Writer,
        *,
        sweep_id: int,
        worker_id: int,
        caps: Caps,
        wall: Callable[[], int],
        block: Amount = MAX_BLOCK,
        poll_s: float = POLL_S,
        idle_s: float = IDLE_S,
    ) -> None:
        self._writer = writer
        self._sweep_id = sweep_id
        self._worker_id = worker_id
        self._caps: dict[Dimension, int] = {
            name: cap for name in _DIMENSIONS if (cap := getattr(caps, name)) is not None
        }
        self._wall = wall
        self._block = block
        self._poll_s = poll_s
        self._idle_s = idle_s
        self._balance = Amount()
        """Allotted, neither reserved nor spent. Negative if a provider reported more than the request's bound."""
        self._unrecorded = Amount()
        """Spent in dimensions without a cap, not yet in a row."""
        self._refill_below = Amount()
        """The balance below which the next block is requested."""
        self._in_flight = 0
        self._reserved = Amount()
        """The bounds of the requests in flight."""
        self._waiters: deque[_Waiter] = deque()
        self._request_open = False
        self._exhausted = False
        """True if the last reply was empty: only a waiting request makes it worth asking again."""
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self.spent = Amount()
        """Total spending of this process."""

    def __repr__(self) -> str:
        return (
            f"<SqliteAllotments {self._caps}: {self._in_flight} in flight, {len(self._waiters)} waiting, "
            f"{self._balance}>"
        )

    async def reserve(self, bound: Amount) -> None:
        """Reserve the upper bound of one request, waiting for others to settle if necessary. First come, first served.

        Raises:
            CapExhausted: a cap is exhausted, and waiting cannot help.
            StoreFailed: the writer has failed.
        """
        if not self._caps:
            self._in_flight += 1
            return
        self._writer.check_writable()
        assert not self._closed, "nothing can be reserved after close"
        if not self._waiters and self._fits_balance(bound):
            self._take_from_balance(bound)
            if not self._exhausted and any(
                getattr(self._balance, name) < getattr(self._refill_below, name) for name in self._caps
            ):
                self._request_block()
            return
        waiter = _Waiter(bound, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        self._request_block()
        try:
            await waiter.future
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
                self._serve_waiters()
            elif not waiter.future.cancelled() and waiter.future.exception() is None:
                self.settle(bound, Amount())  # it was admitted at the very moment of the cancellation
            raise

    def settle(self, bound: Amount, spent: Amount) -> None:
        """Replace a reservation by the actual spending, even if that exceeds the bound."""
        self.spent += spent
        self._in_flight -= 1
        if not self._caps:
            return
        self._reserved -= bound
        self._balance = self._balance + self._keep_capped(bound) - self._keep_capped(spent)
        self._unrecorded = self._unrecorded + spent - self._keep_capped(spent)
        if self._closed:
            return
        self._serve_waiters()
        if any(getattr(self._balance, name) < 0 for name in self._caps):
            self._request_block(more=bool(self._waiters))  # record the overdraft for the other processes
        elif not self._in_flight and not self._waiters:
            self._start_timer(self._idle_s)

    async def read_totals(self) -> Amount:
        """Read the allotments of all processes that have not been returned.

        Raises:
            StoreFailed: the writer has failed.
        """
        return await self._writer.submit_and_wait(lambda connection: _read_balance(connection, self._sweep_id)[1])

    async def close(self) -> None:
        """Return the unused balance; nothing can be reserved afterwards.

        Raises:
            StoreFailed: the writer has failed.
        """
        self._closed = True
        self._cancel_timer()
        if not self._caps:
            return
        # A reply that is still under way arrives before this returns.
        await self._writer.submit_and_wait(lambda _connection: None)
        question = self._build_request(idle=True, more=False)
        await self._writer.submit_and_wait(lambda connection: self._settle_with_store(connection, question))

    # --- in memory ----------------------------------------------------------------------------------------------

    def _keep_capped(self, amount: Amount) -> Amount:
        return Amount(**{name: getattr(amount, name) for name in self._caps})

    def _fits_balance(self, bound: Amount) -> bool:
        return all(getattr(bound, name) <= getattr(self._balance, name) for name in self._caps)

    def _take_from_balance(self, bound: Amount) -> None:
        self._balance -= self._keep_capped(bound)
        self._in_flight += 1
        self._reserved += bound
        self._cancel_timer()

    def _admit_waiters(self) -> None:
        """Admit waiting requests in order, as long as the balance covers them."""
        while self._waiters and self._fits_balance(self._waiters[0].bound):
            waiter = self._waiters.popleft()
            if not waiter.future.done():
                self._take_from_balance(waiter.bound)
                waiter.future.set_result(None)

    def _serve_waiters(self) -> None:
        """Admit the waiting requests that the balance covers; for the others ask the store, now or later."""
        self._admit_waiters()
        if self._waiters:
            if self._exhausted and self._in_flight:
                self._start_timer(self._poll_s)  # requests in flight will return some when they settle
            else:
                self._request_block()

    def _start_timer(self, seconds: float) -> None:
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._on_timer)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        if self._waiters or not self._in_flight:
            self._request_block(more=bool(self._waiters))

    def _build_request(self, *, idle: bool, more: bool) -> _AllotmentRequest:
        """Build a request, and take the amounts that it records out of the balance, so that they are not used twice."""
        free = self._balance
        returned = free if idle else Amount(**{name: min(0, getattr(free, name)) for name in self._caps})
        extra, self._unrecorded = self._unrecorded, Amount()
        self._balance = free - returned
        together = Amount()
        for waiter in self._waiters:
            together += waiter.bound
        return _AllotmentRequest(
            returned=returned,
            extra=extra,
            balance=self._balance,
            queue_head=self._waiters[0].bound if self._waiters else None,
            queue_total=together,
            in_flight=self._reserved,
            idle=idle,
            wants_block=more,
        )

    def _request_block(self, *, more: bool = True) -> None:
        """Send a request for an allotment to the writer, unless one is under way."""
        if self._request_open or self._closed:
            return
        self._request_open = True
        self._cancel_timer()
        question = self._build_request(idle=not self._in_flight, more=more)
        try:
            self._writer.submit(
                lambda connection: self._settle_with_store(connection, question),
                on_durable=self._accept_reply,
                on_failure=self._fail_waiters,
                urgent=bool(self._waiters),
            )
        except StoreFailed as failure:
            self._fail_waiters(failure)

    def _accept_reply(self, reply: _AllotmentReply) -> None:
        self._request_open = False
        self._balance += reply.granted
        granted = {name: getattr(reply.granted, name) for name in self._caps}
        self._refill_below = Amount(
            **{name: amount // 2 or getattr(self._refill_below, name) for name, amount in granted.items()}
        )
        if reply.request.wants_block:
            self._exhausted = not any(granted.values())
        self._admit_waiters()
        if not self._waiters:
            if not self._in_flight and any(granted.values()):
                self._start_timer(self._idle_s)
        elif self._in_flight and self._exhausted:
            self._start_timer(self._poll_s)
        elif reply.short_cap is None or not reply.request.idle:
            self._request_block()
        elif reply.may_be_returned:
            self._start_timer(self._poll_s)
        else:
            waiter = self._waiters.popleft()
            if not waiter.future.done():
                waiter.future.set_exception(CapExhausted(_CAP_FLAGS[reply.short_cap]))
            self._serve_waiters()

    def _fail_waiters(self, failure: StoreFailed) -> None:
        self._request_open = False
        self._closed = True
        self._cancel_timer()
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.future.done():
                waiter.future.set_exception(StoreFailed(failure.path, failure.cause))

    # --- in the store: on the database's thread, inside the writer's transaction ------------------------------------

    def _settle_with_store(self, connection: sqlite3.Connection, question: _AllotmentRequest) -> _AllotmentReply:
        seq, total = _read_balance(connection, self._sweep_id)
        now = self._wall()
        others: int
        (others,) = connection.execute(load_statement("grant_live_workers"), (now, self._worker_id)).fetchone()
        recorded = question.extra - question.returned
        room = {name: cap - getattr(total + recorded, name) for name, cap in self._caps.items()}
        granted, short = self._size_block(question, room, others + 1)
        if granted != Amount() or recorded != Amount() or self._needs_settle_row(connection, question):
            change = recorded + granted
            after = total + change
            kind = "settle" if question.idle and granted == Amount() else "grant"
            connection.execute(
                load_statement("insert_spend"),
                (
                    *(self._sweep_id, seq + 1, self._worker_id, kind),
                    *(change.calls, change.tokens, change.nusd),
                    *(after.calls, after.tokens, after.nusd),
                    now,
                ),
            )
        (holders,) = connection.execute(
            load_statement("grant_other_holders"), {"now": now, "worker": self._worker_id, "sweep": self._sweep_id}
        ).fetchone()
        return _AllotmentReply(granted=granted, short_cap=short, may_be_returned=holders > 0, request=question)

    def _size_block(
        self, question: _AllotmentRequest, room: dict[Dimension, int], processes: int
    ) -> tuple[Amount, Dimension | None]:
        """Compute the allotment from the rest of the caps, and the cap that cannot cover the first request, if any."""
        if not question.wants_block:
            return Amount(), None
        granted: dict[Dimension, int] = {}
        for name, left in room.items():
            mine = getattr(question.balance, name)
            needed = max(0, getattr(question.queue_head, name) - mine) if question.queue_head else 0
            if needed > left:
                return Amount(), name
            everyone = min(max(0, getattr(question.queue_total, name) - mine), left // processes)
            ahead = ROUNDS_AHEAD * getattr(question.queue_total + question.in_flight, name)
            spare = min(left // (BLOCK_DIVISOR * processes), getattr(self._block, name), ahead) - mine
            granted[name] = max(0, needed, everyone, spare)
        return Amount(**granted), None

    def _needs_settle_row(self, connection: sqlite3.Connection, question: _AllotmentRequest) -> bool:
        """Return whether a `settle` row is needed to show that this process holds nothing any more."""
        if not question.idle:
            return False
        last = connection.execute(load_statement("grant_last_of_worker"), (self._sweep_id, self._worker_id)).fetchone()
        return last is not None and last[0] != "settle"


def _read_balance(connection: sqlite3.Connection, sweep_id: int) -> tuple[int, Amount]:
    """Read the last number of the sweep's `spend` rows and the running totals.

    A sweep that ran without caps has no rows; its spending so far counts when it gets caps later.
    """
    row = connection.execute(load_statement("grant_balance"), (sweep_id,)).fetchone()
    if row is None:
        everything = {"sweep": sweep_id, "variant": None, "attempt": MAX_ID}
        row = (0, *connection.execute(load_statement("read_spent"), everything).fetchone())
    return row[0], Amount(calls=row[1], tokens=row[2], nusd=row[3])
