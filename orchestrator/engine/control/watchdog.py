"""Sees to it that a process whose part of a sweep has come to a standstill ends, and says what it waited for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

import anyio
import attrs

from orchestrator.engine.control.control import Control
from orchestrator.engine.control.waits import Quiet, Stalled, Wait, Waits, told
from orchestrator.engine.gate.governor import Hold
from orchestrator.text import counted, one_line
from store.events import Json
from store.sql.claims import Held

LONGEST_TICK_S = 1.0


@attrs.define(kw_only=True)
class Watchdog:
    """Ends what waits while nothing happens.

    Waits with a bound of their own, and those that time alone will end within the bound, are left alone; those that
    time will end later than that are not begun. After it has ended something the process starts nothing new: what could
    not be had for so long will not be there for the next run either.
    """

    waits: Waits
    control: Control
    bound_s: float
    """How long nothing may happen while something is waited for, and how long a wait may be whose end is known."""
    work_bound_s: float
    """The same while runs only work: none that works as it should is silent for so long."""
    running: Callable[[], int]
    """Runs in flight in this process."""
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
        now = self.waits.clock()
        if any(now <= end <= now + self.bound_s for wait in self.waits.open if (end := wait.ends()) is not None):
            return True
        if not self.running():
            if self.control.pause is not None or all(wait.what != "others" for wait in self.waits.open):
                return True
            before, self._held = self._held, await self.others()
            return self._held != before
        return False

    def _acts(self, seconds: float) -> bool:
        """End what has to end after so many seconds of quiet; whether something had to."""
        overdue = [wait for wait in self.waits.open if wait.give_up is not None]
        if self.running():
            overdue = [wait for wait in overdue if wait.run is not None]
        if late := [(wait, hold) for wait in overdue if (hold := self._too_late(wait)) is not None]:
            self._refuse(late)
            return True
        if seconds >= self.bound_s and overdue:
            self._end(overdue, seconds)
            return True
        if seconds >= (self.bound_s if self._ended else self.work_bound_s) and self.running():
            left = f"what is in flight does not end by itself ({counted(self.running(), 'run')})"
            message = f"nothing has happened for {seconds:.0f} s, and {left}"
            self.notice("stalled", {"seconds": round(seconds), "running": self.running()})
            self.control.cancel("stalled", message)
            return True
        return False

    def _too_late(self, wait: Wait) -> Hold | None:
        """What holds back what is waited for, where that is longer than the bound."""
        hold = wait.held() if wait.held is not None else None
        return hold if hold is not None and hold.until > self.waits.clock() + self.bound_s else None

    def _refuse(self, late: Collection[tuple[Wait, Hold]]) -> None:
        """End waits that nothing but time will end, and that not within the bound."""
        for wait, hold in late:
            self._give_up(wait, Stalled(wait.what, 0.0, self._why(hold)))
        message = self._why(min((hold for _, hold in late), key=lambda hold: hold.until))
        self._tell([wait for wait, _ in late], 0.0, why=message)
        self.control.drain("stalled", message)

    def _why(self, hold: Hold) -> str:
        left_s = hold.until - self.waits.clock()
        remedy = "resume later, or with" if hold.flag is None else f"give a higher {hold.flag}, or"
        bound = f"--max-stall is {self.bound_s:g} s"
        return f"{hold.by} lets the next request go in {left_s:.0f} s, and {bound}: {remedy} a longer --max-stall"

    def _end(self, overdue: Collection[Wait], seconds: float) -> None:
        runs = [wait.run for wait in overdue if wait.run is not None]
        message = f"nothing has happened for {seconds:.0f} s (--max-stall): ended {told(overdue)}"
        if self._held and not runs:
            message += "; " + ", ".join(
                f"process {held.pid} on {one_line(held.host)} holds {held.runs}, the first at position {held.first}"
                for held in self._held
            )
        for wait in overdue:
            self._give_up(wait, Stalled(wait.what, seconds))
        self._tell(overdue, seconds)
        self.control.drain("stalled", message)

    def _give_up(self, wait: Wait, error: Stalled) -> None:
        self._ended = True
        if wait.give_up is not None:
            wait.give_up(error)

    def _tell(self, ended: Collection[Wait], seconds: float, **more: Json) -> None:
        runs: list[Json] = [*sorted({wait.run for wait in ended if wait.run is not None})[:100]]
        self.notice("stalled", {"seconds": round(seconds), "waits": told(ended), "runs": runs, **more})
