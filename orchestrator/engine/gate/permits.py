"""An account's permits as something one can wait for. The governor decides how many there are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio

from orchestrator.engine.gate.governor import Governor, Ticket
from orchestrator.engine.hold import Hold
from providers.errors import ProviderError
from store.events import Json

CLIMB = 1.25
"""A limit that has grown by so much since it was last recorded is recorded again."""


class Permits:
    """The governor's permits as something one can wait for."""

    def __init__(
        self, governor: Governor, told: Callable[[str, dict[str, Json]], None] = lambda _kind, _facts: None
    ) -> None:
        self.governor = governor
        self._told = told
        """Where changes of the limit are recorded: kind and facts of a notice."""
        self._last_told = governor.allowed
        self._clock = asyncio.get_running_loop().time
        self._changed: anyio.Event | None = None
        """Set and dropped at the next change; None while nobody waits for one."""

    def free(self) -> bool:
        """Whether a request could start now."""
        return self.governor.admits(self._clock())

    def hold(self, tokens: int = 0) -> Hold | None:
        """What keeps a request of at most *tokens* back until a known time; see `Governor.hold`."""
        return self.governor.hold(self._clock(), tokens)

    def take(self, tokens: int) -> Ticket | None:
        """Take a permit for a request of at most *tokens*, if there is one now."""
        now = self._clock()
        return self.governor.started(now, tokens) if self.governor.admits(now, tokens) else None

    async def changed(self, tokens: int = 0) -> None:
        """Return when `free` may have become true."""
        if self._changed is None:
            self._changed = anyio.Event()
        with anyio.move_on_after(self.governor.opens_in(self._clock(), tokens)):
            await self._changed.wait()

    async def enter(self, tokens: int) -> Ticket:
        """Wait for a permit and take it."""
        while (ticket := self.take(tokens)) is None:
            await self.changed(tokens)
        return ticket

    def leave(self, ticket: Ticket, error: ProviderError | None = None, tokens: int | None = None) -> None:
        """Give the permit back, with what the request used, and wake those who wait for one."""
        cut = self.governor.ended(self._clock(), ticket, error, tokens)
        self._tell(cut=cut)
        self._wake()

    def share(self, processes: int) -> None:
        """So many live processes use the account's rates."""
        self.governor.share(processes)

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None

    def _tell(self, *, cut: bool) -> None:
        """Record each cut, and the climb after it by steps that a reader can follow."""
        allowed = self.governor.allowed
        if cut:
            self._told("limit_cut", {"limit": allowed, "cuts": self.governor.cuts, "inFlight": self.governor.in_flight})
        elif allowed >= self._last_told * CLIMB or (allowed == self.governor.cap != self._last_told):
            self._told("limit_raised", {"limit": allowed})
        else:
            return
        self._last_told = allowed
