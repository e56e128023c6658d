"""Permits of an account: waiting for the AIMD limiter, which decides how many there are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio

from orchestrator.engine.gate.governor import Governor, Ticket
from orchestrator.engine.hold import Hold
from providers.errors import ProviderError
from store.events import Json

RECORDED_GROWTH = 1.25
"""A raised limit is recorded once it has grown by this factor since the last record."""


class Permits:
    """Permits of one account that tasks can wait for."""

    def __init__(
        self, governor: Governor, record_notice: Callable[[str, dict[str, Json]], None] = lambda _kind, _facts: None
    ) -> None:
        self.governor = governor
        self._record_notice = record_notice
        """Records a change of the limit: kind and payload of a notice."""
        self._last_recorded = governor.allowed
        self._clock = asyncio.get_running_loop().time
        self._changed: anyio.Event | None = None
        """Set and dropped at the next change; None while no task waits for one."""

    def has_free_permit(self) -> bool:
        """Return whether a request could start now."""
        return self.governor.admits_request(self._clock())

    def find_hold(self, tokens: int = 0) -> Hold | None:
        """Find the hold that keeps back a request of at most *tokens*; see `Governor.find_hold`."""
        return self.governor.find_hold(self._clock(), tokens)

    def try_take(self, tokens: int) -> Ticket | None:
        """Take a permit for a request of at most *tokens*; None if none is free."""
        now = self._clock()
        return self.governor.start_request(now, tokens) if self.governor.admits_request(now, tokens) else None

    async def wait_for_change(self, tokens: int = 0) -> None:
        """Return when `has_free_permit` may have become true."""
        if self._changed is None:
            self._changed = anyio.Event()
        with anyio.move_on_after(self.governor.opens_in(self._clock(), tokens)):
            await self._changed.wait()

    async def take_permit(self, tokens: int) -> Ticket:
        """Wait for a permit for a request of at most *tokens*, and take it."""
        while (ticket := self.try_take(tokens)) is None:
            await self.wait_for_change(tokens)
        return ticket

    def give_back(self, ticket: Ticket, error: ProviderError | None = None, tokens: int | None = None) -> None:
        """Give the permit back with the request's error and tokens, and wake waiting tasks."""
        cut = self.governor.end_request(self._clock(), ticket, error, tokens)
        self._record_limit(cut=cut)
        self._wake_waiters()

    def divide_rates(self, processes: int) -> None:
        """Share the account's rates among *processes*."""
        self.governor.divide_rates(processes)

    def _wake_waiters(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def _record_limit(self, *, cut: bool) -> None:
        """Record each cut of the limit, and its growth in steps."""
        allowed = self.governor.allowed
        if cut:
            self._record_notice(
                "limit_cut", {"limit": allowed, "cuts": self.governor.cuts, "inFlight": self.governor.in_flight}
            )
        elif allowed >= self._last_recorded * RECORDED_GROWTH or (allowed == self.governor.cap != self._last_recorded):
            self._record_notice("limit_raised", {"limit": allowed})
        else:
            return
        self._last_recorded = allowed
