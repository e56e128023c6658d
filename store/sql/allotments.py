"""Spending: what a process may still spend of a sweep's caps.

Every process takes blocks from the sweep's caps (rows of `spend`, which carry the running totals) and reserves from
its block in memory, so that nobody waits for a commit in the normal case. What is granted counts as spent until it is
given back: over all processes nothing is ever granted beyond a cap, and a dead process takes its unused rest with it.

A `settle` row gives back everything its process had left. So a process whose last row is a `settle` holds nothing that
others could wait for.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from typing import Literal

import attrs

from store.errors import BudgetSpent, StoreFailed
from store.rows import Amount, Caps
from store.sql.statements import statement
from store.sql.writer import Writer

POLL_S = 0.5
"""How often a request that must wait for other processes asks again."""
IDLE_S = 1.0
"""How long a process without a request in flight keeps what it was granted."""
BLOCK = Amount(calls=200, tokens=2_000_000, nusd=5_000_000_000)
"""The most that is granted at once, unless a single request needs more."""
FRACTION = 4
"""A block is at most this part of what is left, for each live process: blocks shrink as the cap comes near."""

MAX_ID = 2**63 - 1

Dimension = Literal["calls", "tokens", "nusd"]
_DIMENSIONS: tuple[Dimension, ...] = ("calls", "tokens", "nusd")
_CAP: dict[Dimension, Literal["max-calls", "max-tokens", "max-cost-usd"]] = {
    "calls": "max-calls",
    "tokens": "max-tokens",
    "nusd": "max-cost-usd",
}


@attrs.frozen(kw_only=True)
class _Question:
    """What a process tells the store when it asks for a block. Amounts count in capped dimensions only."""

    returned: Amount
    """Taken out of the process's balance, to be given back; negative parts were spent beyond what was granted."""
    extra: Amount
    """Spent in dimensions without a cap."""
    left: Amount
    """The process's balance without `returned`."""
    head: Amount | None
    """What the first request in the queue needs; None when nobody waits."""
    all: Amount
    """What all requests in the queue need."""
    idle: bool
    """Nothing is in flight: all is given back, and only other processes could still make room."""
    more: bool
    """Whether a block is wanted at all, or only something given back."""


@attrs.frozen(kw_only=True)
class _Reply:
    """What the store said."""

    granted: Amount
    short: Dimension | None = None
    """The cap that leaves no room for what is needed; None when it was granted."""
    hope: bool = False
    """Another live process may give something back."""
    question: _Question


@attrs.define(eq=False)
class _Waiter:
    bound: Amount
    future: asyncio.Future[None]


class SqliteBudget:
    """What the sweep may still spend, as seen by one process; implements `orchestrator.engine.ports.Budget`.

    Without caps nothing is written and nobody waits.

    Args:
        writer: commits the blocks.
        sweep_id: the sweep.
        worker_id: this process.
        caps: totals for the sweep, whatever was spent before.
        wall: microseconds since 1970 UTC.
        block: the most that is granted at once.
        poll_s: how often a request that must wait for other processes asks again.
        idle_s: how long a process without a request in flight keeps what it was granted.
    """

    def __init__(
        self,
        writer: Writer,
        *,
        sweep_id: int,
        worker_id: int,
        caps: Caps,
        wall: Callable[[], int],
        block: Amount = BLOCK,
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
        self._free = Amount()
        """Granted, neither reserved nor spent. Negative where a provider reported more than its bound."""
        self._extra = Amount()
        """Spent where there is no cap, and in no row yet."""
        self._low = Amount()
        """Below this the next block is asked for."""
        self._in_flight = 0
        self._waiters: deque[_Waiter] = deque()
        self._asking = False
        self._dry = False
        """The last answer was nothing: asking again only makes sense for who waits."""
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self.spent = Amount()
        """What this process has spent."""

    def __repr__(self) -> str:
        return f"<SqliteBudget {self._caps}: {self._in_flight} in flight, {len(self._waiters)} waiting, {self._free}>"

    async def reserve(self, bound: Amount) -> None:
        """Set the upper bound of one request aside, waiting for others to settle if need be. First come, first served.

        Raises:
            BudgetSpent: waiting cannot help.
            StoreFailed: the writer has failed.
        """
        if not self._caps:
            self._in_flight += 1
            return
        self._writer.check()
        assert not self._closed, "a closed budget has nothing to reserve from"
        if not self._waiters and self._fits(bound):
            self._take(bound)
            if not self._dry and any(getattr(self._free, name) < getattr(self._low, name) for name in self._caps):
                self._ask()
            return
        waiter = _Waiter(bound, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        self._ask()
        try:
            await waiter.future
        except asyncio.CancelledError:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
                self._serve()
            elif not waiter.future.cancelled() and waiter.future.exception() is None:
                self.settle(bound, Amount())  # it was let in at the very moment of the cancellation
            raise

    def settle(self, bound: Amount, spent: Amount) -> None:
        """Replace a reservation by what was really spent, also where that is more than the bound."""
        self.spent += spent
        self._in_flight -= 1
        if not self._caps:
            return
        self._free = self._free + self._capped(bound) - self._capped(spent)
        self._extra = self._extra + spent - self._capped(spent)
        if self._closed:
            return
        self._serve()
        if any(getattr(self._free, name) < 0 for name in self._caps):
            self._ask(more=bool(self._waiters))  # the other processes have to learn of it
        elif not self._in_flight and not self._waiters:
            self._alarm(self._idle_s)

    async def totals(self) -> Amount:
        """What all processes have been granted of the sweep's caps, and not given back.

        Raises:
            StoreFailed: the writer has failed.
        """
        return await self._writer.transact(lambda connection: _balance(connection, self._sweep_id)[1])

    async def close(self) -> None:
        """Give back what is unused; nothing can be reserved afterwards.

        Raises:
            StoreFailed: the writer has failed.
        """
        self._closed = True
        self._silence()
        if not self._caps:
            return
        # An answer that is still under way arrives before this returns.
        await self._writer.transact(lambda _connection: None)
        question = self._question(idle=True, more=False)
        await self._writer.transact(lambda connection: self._exchange(connection, question))

    # --- in memory ----------------------------------------------------------------------------------------------

    def _capped(self, amount: Amount) -> Amount:
        return Amount(**{name: getattr(amount, name) for name in self._caps})

    def _fits(self, bound: Amount) -> bool:
        return all(getattr(bound, name) <= getattr(self._free, name) for name in self._caps)

    def _take(self, bound: Amount) -> None:
        self._free -= self._capped(bound)
        self._in_flight += 1
        self._silence()

    def _admit(self) -> None:
        """Let in whoever fits, in order."""
        while self._waiters and self._fits(self._waiters[0].bound):
            waiter = self._waiters.popleft()
            if not waiter.future.done():
                self._take(waiter.bound)
                waiter.future.set_result(None)

    def _serve(self) -> None:
        """Let in whoever fits; see to it that the others get an answer."""
        self._admit()
        if self._waiters:
            if self._dry and self._in_flight:
                self._alarm(self._poll_s)  # what is in flight gives back by itself
            else:
                self._ask()

    def _alarm(self, seconds: float) -> None:
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._ring)

    def _silence(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        if self._waiters or not self._in_flight:
            self._ask(more=bool(self._waiters))

    def _question(self, *, idle: bool, more: bool) -> _Question:
        """Take out of the balance what is to be recorded, so that nobody can use it meanwhile."""
        free = self._free
        returned = free if idle else Amount(**{name: min(0, getattr(free, name)) for name in self._caps})
        extra, self._extra = self._extra, Amount()
        self._free = free - returned
        together = Amount()
        for waiter in self._waiters:
            together += waiter.bound
        return _Question(
            returned=returned,
            extra=extra,
            left=self._free,
            head=self._waiters[0].bound if self._waiters else None,
            all=together,
            idle=idle,
            more=more,
        )

    def _ask(self, *, more: bool = True) -> None:
        """Hand a question to the writer, unless one is under way."""
        if self._asking or self._closed:
            return
        self._asking = True
        self._silence()
        question = self._question(idle=not self._in_flight, more=more)
        try:
            self._writer.submit(
                lambda connection: self._exchange(connection, question),
                acknowledged=self._answered,
                failed=self._failed,
                hurry=bool(self._waiters),
            )
        except StoreFailed as failure:
            self._failed(failure)

    def _answered(self, reply: _Reply) -> None:
        self._asking = False
        self._free += reply.granted
        granted = {name: getattr(reply.granted, name) for name in self._caps}
        self._low = Amount(**{name: amount // 2 or getattr(self._low, name) for name, amount in granted.items()})
        if reply.question.more:
            self._dry = not any(granted.values())
        self._admit()
        if not self._waiters:
            if not self._in_flight and any(granted.values()):
                self._alarm(self._idle_s)
        elif self._in_flight and self._dry:
            self._alarm(self._poll_s)
        elif reply.short is None or not reply.question.idle:
            self._ask()
        elif reply.hope:
            self._alarm(self._poll_s)
        else:
            waiter = self._waiters.popleft()
            if not waiter.future.done():
                waiter.future.set_exception(BudgetSpent(_CAP[reply.short]))
            self._serve()

    def _failed(self, failure: StoreFailed) -> None:
        self._asking = False
        self._closed = True
        self._silence()
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.future.done():
                waiter.future.set_exception(StoreFailed(failure.path, failure.cause))

    # --- in the store: on the database's thread, inside the writer's transaction ------------------------------------

    def _exchange(self, connection: sqlite3.Connection, question: _Question) -> _Reply:
        seq, total = _balance(connection, self._sweep_id)
        now = self._wall()
        others: int
        (others,) = connection.execute(statement("grant_live_workers"), (now, self._worker_id)).fetchone()
        recorded = question.extra - question.returned
        room = {name: cap - getattr(total + recorded, name) for name, cap in self._caps.items()}
        granted, short = self._share(question, room, others + 1)
        if granted != Amount() or recorded != Amount() or self._to_be_marked(connection, question):
            change = recorded + granted
            after = total + change
            kind = "settle" if question.idle and granted == Amount() else "grant"
            connection.execute(
                statement("insert_spend"),
                (
                    *(self._sweep_id, seq + 1, self._worker_id, kind),
                    *(change.calls, change.tokens, change.nusd),
                    *(after.calls, after.tokens, after.nusd),
                    now,
                ),
            )
        (holders,) = connection.execute(
            statement("grant_other_holders"), {"now": now, "worker": self._worker_id, "sweep": self._sweep_id}
        ).fetchone()
        return _Reply(granted=granted, short=short, hope=holders > 0, question=question)

    def _share(
        self, question: _Question, room: dict[Dimension, int], processes: int
    ) -> tuple[Amount, Dimension | None]:
        """How much to grant of what is left in the caps, and which cap is too short for the first in the queue."""
        if not question.more:
            return Amount(), None
        granted: dict[Dimension, int] = {}
        for name, left in room.items():
            mine = getattr(question.left, name)
            needed = max(0, getattr(question.head, name) - mine) if question.head else 0
            if needed > left:
                return Amount(), name
            everyone = min(max(0, getattr(question.all, name) - mine), left // processes)
            spare = min(left // (FRACTION * processes), getattr(self._block, name)) - mine
            granted[name] = max(0, needed, everyone, spare)
        return Amount(**granted), None

    def _to_be_marked(self, connection: sqlite3.Connection, question: _Question) -> bool:
        """Whether a row has to say that this process holds nothing any more."""
        if not question.idle:
            return False
        last = connection.execute(statement("grant_last_of_worker"), (self._sweep_id, self._worker_id)).fetchone()
        return last is not None and last[0] != "settle"


def _balance(connection: sqlite3.Connection, sweep_id: int) -> tuple[int, Amount]:
    """The last number of the sweep's `spend` rows, and the running totals.

    A sweep that ran without caps has no rows; what it has used by then counts when it gets caps later.
    """
    row = connection.execute(statement("grant_balance"), (sweep_id,)).fetchone()
    if row is None:
        everything = {"sweep": sweep_id, "variant": None, "attempt": MAX_ID}
        row = (0, *connection.execute(statement("read_spent"), everything).fetchone())
    return row[0], Amount(calls=row[1], tokens=row[2], nusd=row[3])
