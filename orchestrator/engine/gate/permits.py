"""An account's permits as something one can wait for. The governor decides how many there are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio

from orchestrator.engine.gate.governor import Governor, Ticket
from orchestrator.engine.hold import Hold
from providers.errors import ProviderError
from store.events import Json

RECORDED_GROWTH = 1.25
"""A limit that has grown by so much since it was last recorded is recorded again."""


class Permits:
    """The governor's permits as something one can wait for."""

    def __init__(
        self, governor: Governor, record_notice: Callable[[str, dict[str, Json]], None] = lambda _kind, _facts: None
    ) -> None:
        self.governor = governor
        self._record_notice = record_notice
        """Where changes of the limit are recorded: kind and facts of a notice."""
        self._last_recorded = governor.allowed
        self._clock = asyncio.get_running_loop().time
        self._changed: anyio.Event | None = None
        """Set and dropped at the next change; None while nobody waits for one."""

    def has_free_permit(self) -> bool:
        """Whether a request could start now."""
        return self.governor.admits_request(self._clock())

    def find_hold(self, tokens: int = 0) -> Hold | None:
        """What keeps a request of at most *tokens* back until a known time; see `Governor.find_hold`."""
        return self.governor.find_hold(self._clock(), tokens)

    def try_take(self, tokens: int) -> Ticket | None:
        """Take a permit for a request of at most *tokens*, if there is one now."""
        now = self._clock()
        return self.governor.start_request(now, tokens) if self.governor.admits_request(now, tokens) else None

    async def wait_for_change(self, tokens: int = 0) -> None:
        """Return when `has_free_permit` may have become true."""
        if self._changed is None:
            self._changed = anyio.Event()
        with anyio.move_on_after(self.governor.opens_in(self._clock(), tokens)):
            await self._changed.wait()

    async def take_permit(self, tokens: int) -> Ticket:
        """Wait for a permit and take it."""
        while (ticket := self.try_take(tokens)) is None:
            await self.wait_for_change(tokens)
        return ticket

    def give_back(self, ticket: Ticket, error: ProviderError | None = None, tokens: int | None = None) -> None:
        """Give the permit back, with what the request used, and wake those who wait for one."""
        cut = self.governor.end_request(self._clock(), ticket, error, tokens)
        self._record_limit(cut=cut)
        self._wake_waiters()

    def divide_rates(self, processes: int) -> None:
        """So many live processes use the account's rates."""
        self.governor.divide_rates(processes)

    def _wake_waiters(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def _record_limit(self, *, cut: bool) -> None:
        """Record each cut, and the climb after it by steps that a reader can follow."""
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
