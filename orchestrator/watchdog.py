"""Sees to it that a process whose part of a sweep has come to a standstill ends, and says what it waited for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

import anyio
import attrs

from orchestrator.control import Control
from orchestrator.reports.plain import one_line
from orchestrator.waits import Quiet, Stalled, Wait, Waits, told
from store.claims import Held
from store.events import Json

LONGEST_TICK_S = 1.0


@attrs.define(kw_only=True)
class Watchdog:
    """Ends what waits while nothing happens.

    Waits with a bound of their own, and those that time alone will end, are left alone. After it has ended something
    the process starts nothing new: what could not be had for so long will not be there for the next run either.
    """

    waits: Waits
    control: Control
    bound_s: float
    """How long nothing may happen while something is waited for."""
    work_bound_s: float
    """The same while runs only work: none that works as it should is silent for so long."""
    running: Callable[[], int]
    """Runs in flight in this process."""
    opens_in: Callable[[], float | None]
    """Seconds until time alone makes room at an account; 0 or None where that is not what is waited for."""
    others: Callable[[], Awaitable[Collection[Held]]]
    """What other living processes hold."""
    notice: Callable[[str, dict[str, Json]], None]
    _held: Collection[Held] = attrs.field(init=False, default=())
    _ended: bool = attrs.field(init=False, default=False)

    async def watch(self) -> None:
        """Watch until cancelled."""
        tick_s = min(LONGEST_TICK_S, self.bound_s / 4)
        quiet = Quiet(tick_s=tick_s)
        while True:
            await anyio.sleep(tick_s)
            seconds = quiet.look(self.waits.clock(), stirred=await self._stirred())
            if self._acts(seconds):
                quiet.since = None

    async def _stirred(self) -> bool:
        """Whether something has happened since the last look, or nothing had to."""
        stirred, self.waits.stirred = self.waits.stirred, False
        if stirred:
            return True
        waiting = {wait.what for wait in self.waits.open}
        if "permit" in waiting and self.opens_in():
            return True
        if not self.running():
            if self.control.pause is not None or "others" not in waiting:
                return True
            before, self._held = self._held, await self.others()
            return self._held != before
        return False

    def _acts(self, seconds: float) -> bool:
        """End what has to end after so many seconds of quiet; whether something had to."""
        overdue = [wait for wait in self.waits.open if wait.give_up is not None]
        if self.running():
            overdue = [wait for wait in overdue if wait.run is not None]
        if seconds >= self.bound_s and overdue:
            self._end(overdue, seconds)
            return True
        if seconds >= (self.bound_s if self._ended else self.work_bound_s) and self.running():
            left = f"{self.running()} runs in flight do not end by themselves"
            message = f"nothing has happened for {seconds:.0f} s, and {left}"
            self.notice("stalled", {"seconds": round(seconds), "running": self.running()})
            self.control.cancel("stalled", message)
            return True
        return False

    def _end(self, overdue: Collection[Wait], seconds: float) -> None:
        self._ended = True
        runs = sorted({wait.run for wait in overdue if wait.run is not None})
        message = f"nothing has happened for {seconds:.0f} s (--max-stall): ended {told(overdue)}"
        if self._held and not runs:
            message += "; " + ", ".join(
                f"process {held.pid} on {one_line(held.host)} holds {held.runs}, the first at position {held.first}"
                for held in self._held
            )
        self.notice("stalled", {"seconds": round(seconds), "waits": told(overdue), "runs": runs[:100]})
        for wait in overdue:
            if wait.give_up is not None:
                wait.give_up(Stalled(wait.what, seconds))
        self.control.drain("stalled", message)
