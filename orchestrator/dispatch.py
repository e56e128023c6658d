"""Claims runs ahead of need and gives each to a free worker as soon as its account has room.

Three roles: one task claims, one offers, and as many long-lived workers as runs may be in flight execute. Live tasks
never exceed that number plus a constant, however long the plan is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import ObjectReceiveStream, ObjectSendStream

from orchestrator.board import Board
from orchestrator.control import Control
from orchestrator.gate import Permits
from orchestrator.ports import Claims
from store.rows import Claim

OTHERS_POLL_S = 0.5
"""How often to look for runs that another process gave up, when only such runs are left."""


class Dispatch:
    """One process's share of a sweep."""

    def __init__(
        self,
        *,
        claims: Claims,
        execute: Callable[[Claim], Awaitable[None]],
        account: str,
        permits: Permits,
        control: Control,
        concurrency: int,
    ) -> None:
        self.board = Board()
        self.peak = 0
        self._claims = claims
        self._execute = execute
        self._account = account
        self._permits = permits
        self._control = control
        self._concurrency = concurrency
        self._wanted = anyio.Event()
        self._arrived = anyio.Event()
        self._exhausted = False

    async def run(self) -> None:
        """Return when no run of the sweep is left to do, for anyone, or when control says stop."""
        offers, taken = anyio.create_memory_object_stream[Claim](0)
        async with anyio.create_task_group() as workers:
            for _ in range(self._concurrency):
                workers.start_soon(self._work, taken.clone())
            taken.close()
            async with offers, anyio.create_task_group() as feeding:
                feeding.start_soon(self._claim)
                feeding.start_soon(self._offer, offers, feeding.cancel_scope)
                await self._control.draining.wait()
                feeding.cancel_scope.cancel()

    async def _work(self, taken: ObjectReceiveStream[Claim]) -> None:
        async with taken:
            async for claim in taken:
                self.peak = max(self.peak, self.board.running)
                try:
                    await self._execute(claim)
                finally:
                    self.board.ended()

    async def _offer(self, offers: ObjectSendStream[Claim], feeding: anyio.CancelScope) -> None:
        """Hand out what may start; stop feeding when there will be nothing more."""
        while self.board.waiting or not self._exhausted:
            claim = self.board.start(lambda _account: self._permits.free())
            if self.board.waiting < self._concurrency:
                self._wanted.set()
            if claim is not None:
                try:
                    await offers.send(claim)
                except anyio.get_cancelled_exc_class():
                    self.board.put_back(self._account, claim)
                    raise
            elif self.board.waiting:
                await self._permits.changed()
            else:
                self._arrived = anyio.Event()
                await self._arrived.wait()
        feeding.cancel()

    async def _claim(self) -> None:
        """Keep about one run per worker ready; when nothing is free, wait for what others may give up."""
        while True:
            claims = await self._claims.claim(self._concurrency)
            self.board.add(self._account, claims)
            if claims:
                self._arrived.set()
                if self.board.waiting >= self._concurrency:
                    self._wanted = anyio.Event()
                    await self._wanted.wait()
            elif await self._claims.remaining() == 0:
                break
            else:
                await anyio.sleep(OTHERS_POLL_S)
        self._exhausted = True
        self._arrived.set()
