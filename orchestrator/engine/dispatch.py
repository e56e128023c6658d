"""Dispatch: claims runs ahead of need and starts each as soon as its account has a free permit.

One task claims. As many long-lived worker tasks as runs may be in flight take the runs that may start and execute them.
The number of live tasks does not depend on the length of the plan.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import anyio

from orchestrator.engine.board import Board
from orchestrator.engine.control.control import Control
from orchestrator.engine.control.waits import Wait, Waits
from orchestrator.engine.gate.permits import Permits
from orchestrator.engine.hold import Hold
from orchestrator.engine.ports import Claims
from store.rows import Claim

OTHERS_POLL_S = 0.5
"""Seconds between looks for runs that another process gave up, when only such runs are left."""

MAX_READY_PER_WORKER = 8
"""Maximum number of claimed runs per worker task while accounts without a free permit hold back their runs."""


class Dispatch:
    """Dispatcher of the runs that one process executes."""

    def __init__(
        self,
        *,
        claims: Claims,
        execute: Callable[[Claim], Awaitable[None]],
        account_of: Callable[[Claim], str],
        permits: Mapping[str, Permits],
        control: Control,
        concurrency: int,
        waits: Waits | None = None,
    ) -> None:
        self.board = Board()
        self.peak = 0
        self._claims = claims
        self._execute = execute
        self._account_of = account_of
        self._permits = permits
        self._control = control
        self._concurrency = concurrency
        self._waits = waits or Waits()
        # Giving this wait up needs no action here: the watchdog drains the process, which ends the dispatch.
        self._others = Wait(self._waits, "others", give_up=lambda _stalled: None)
        self._wanted = anyio.Event()
        self._arrived = anyio.Event()
        self._exhausted = False
        self._claiming = anyio.CancelScope()
        # Permits become free one at a time: one task waits for the next and the others queue, so that only one wakes.
        self._turn = anyio.Lock()
        self._watching: anyio.CancelScope | None = None

    async def run_all(self) -> None:
        """Execute runs until no process has any left to do, or until control stops this process."""
        async with anyio.create_task_group() as feeding:
            feeding.start_soon(self._claim_ahead)
            feeding.start_soon(self._drain_queue)
            feeding.start_soon(self._heed_pauses)
            async with anyio.create_task_group() as workers:
                for _ in range(self._concurrency):
                    workers.start_soon(self._work_runs)
            feeding.cancel_scope.cancel()

    async def _work_runs(self) -> None:
        while (claim := await self._next_claim()) is not None:
            self.peak = max(self.peak, self.board.running)
            try:
                await self._execute(claim)
            finally:
                self.board.mark_ended()
                self._waits.progressed = True

    async def _next_claim(self) -> Claim | None:
        """Wait for the next run that may start; None if there will be none. Nothing awaits between take and start."""
        while not self._control.draining.is_set():
            if self._claims.has_lapsed():
                await self._recheck_claims()
                continue
            if self._control.pause is not None:
                if self._exhausted and not self.board.waiting:
                    return None
                await self._arrived.wait()
                continue
            claim = self.board.start_next(self._has_room)
            if not self._has_enough_ready():
                self._wanted.set()
            if claim is not None:
                return claim
            if self.board.waiting:
                await self._wait_for_permit()
            elif self._exhausted:
                return None
            else:
                await self._arrived.wait()
        return None

    async def _recheck_claims(self) -> None:
        """Drop the claims that other processes may have taken while this one was stopped or asleep."""
        async with self._turn:
            if self._claims.has_lapsed():
                self._add_claims(await self._claims.confirm_claims(self.board.take_unstarted()))
                self._wanted.set()

    async def _wait_for_permit(self) -> None:
        """Return when a run may start, when another task has taken it, or when no run is to start any more."""
        async with self._turn:
            with Wait(self._waits, "permit", give_up=lambda _stalled: None, find_hold=self._find_first_hold):
                while not self._may_go_on():
                    with anyio.CancelScope() as self._watching:
                        await self._wait_for_any_change(
                            [self._permits[account] for account in self.board.list_accounts()]
                        )

    def _find_first_hold(self) -> Hold | None:
        """Find the hold that ends first; None unless each account with queued runs has one."""
        holds = [self._permits[account].find_hold() for account in self.board.list_accounts()]
        known = [hold for hold in holds if hold is not None]
        return min(known, key=lambda hold: hold.until) if known and len(known) == len(holds) else None

    def _may_go_on(self) -> bool:
        accounts = self.board.list_accounts()
        return not accounts or any(map(self._has_room, accounts)) or self._control.draining.is_set()

    async def _wait_for_any_change(self, permits: Sequence[Permits]) -> None:
        """Return when one of the accounts may have a free permit."""
        if len(permits) == 1:
            await permits[0].wait_for_change()
            return
        async with anyio.create_task_group() as race:

            async def watch_one(account: Permits) -> None:
                await account.wait_for_change()
                race.cancel_scope.cancel()

            for account in permits:
                race.start_soon(watch_one, account)

    def _wake_idle(self) -> None:
        self._arrived.set()
        self._arrived = anyio.Event()

    def _has_room(self, account: str) -> bool:
        return self._permits[account].has_free_permit()

    def _has_enough_ready(self) -> bool:
        """Return whether as many runs may start as there are worker tasks."""
        if self.board.waiting < self._concurrency or len(self._permits) == 1:
            return self.board.waiting >= self._concurrency
        return (
            self.board.count_ready(self._has_room) >= self._concurrency
            or self.board.waiting >= MAX_READY_PER_WORKER * self._concurrency
        )

    def _add_claims(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            self.board.add_claims(self._account_of(claim), (claim,))
        if self._watching is not None and len(self._permits) > 1:
            self._watching.cancel()  # the account of a new claim may have a free permit

    async def _heed_pauses(self) -> None:
        """Wake the idle tasks when a pause begins or ends."""
        while True:
            await self._control.changed.wait()
            self._wake_idle()

    async def _drain_queue(self) -> None:
        """Stop claiming and end the idle tasks when draining begins."""
        await self._control.draining.wait()
        self._claiming.cancel()
        self._wake_idle()
        if self._watching is not None:
            self._watching.cancel()

    async def _claim_ahead(self) -> None:
        """Keep about one run per task ready; when none is free, wait for runs that other processes may give up."""
        with self._claiming:
            while True:
                # A claim that was requested is committed even if this task is cancelled. Without the shield its runs
                # would be neither executed nor accounted for.
                with anyio.CancelScope(shield=True):
                    claims = await self._claims.claim_runs(self._concurrency)
                self._add_claims(claims)
                if claims:
                    self._others.end_wait()
                    self._wake_idle()
                    if self._has_enough_ready():
                        self._wanted = anyio.Event()
                        await self._wanted.wait()
                elif (left := await self._claims.count_remaining()) == 0:
                    break
                else:
                    if left > self.board.running + self.board.waiting:
                        self._others.begin_wait()
                    else:
                        self._others.end_wait()
                    await anyio.sleep(OTHERS_POLL_S)
        self._others.end_wait()
        self._exhausted = True
        self._wake_idle()
