"""Sees to it that a process whose part of a sweep has come to a standstill ends, and says what it waited for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence

import anyio
import attrs

from orchestrator.engine.control.control import Control
from orchestrator.engine.control.waits import QuietTimer, Stalled, Wait, Waits, describe_waits
from orchestrator.engine.hold import Hold
from orchestrator.text import format_count, one_line
from store.events import Json
from store.sql.claims import HeldRuns

MAX_TICK_S = 1.0


@attrs.frozen(kw_only=True)
class OverlongWaits:
    """Waits that are known to end later than the bound allows, each with its cause."""

    holds: Sequence[tuple[Wait, Hold]]


@attrs.frozen(kw_only=True)
class OverdueWaits:
    """Waits during which nothing has happened in the process for the bound."""

    waits: Sequence[Wait]
    seconds: float


@attrs.frozen(kw_only=True)
class SilentRuns:
    """Runs in flight that wait for nothing the watchdog could end, and have been silent for the bound."""

    runs: int
    seconds: float


Stall = OverlongWaits | OverdueWaits | SilentRuns
"""What has to end, and why."""


@attrs.define(kw_only=True)
class Watchdog:
    """Ends waits and runs of a process that makes no progress: `observe`, then `decide` (pure), then `act`.

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
    count_running: Callable[[], int]
    """Runs in flight in this process."""
    list_others: Callable[[], Awaitable[Collection[HeldRuns]]]
    """What other living processes hold."""
    record_notice: Callable[[str, dict[str, Json]], None]
    _other_runs: Collection[HeldRuns] = attrs.field(init=False, default=())
    _ended: bool = attrs.field(init=False, default=False)
    _quiet: QuietTimer = attrs.field(
        init=False,
        default=attrs.Factory(lambda dog: QuietTimer(tick_s=min(MAX_TICK_S, dog.bound_s / 4)), takes_self=True),
    )

    async def watch_waits(self) -> None:
        """Watch until cancelled."""
        while True:
            await anyio.sleep(self._quiet.tick_s)
            now = self.waits.clock()
            await self.observe(now)
            if (stall := self.decide(now)) is not None:
                self.act(stall, now)

    async def observe(self, now: float) -> bool:
        """Take note of progress since the last call; whether there was any, or none was due. *now* in seconds."""
        stirred = await self._has_progressed(now)
        self._quiet.measure_quiet(now, progressed=stirred)
        return stirred

    def decide(self, now: float) -> Stall | None:
        """What has to end at *now*, by what was observed; None if nothing has to. Changes nothing."""
        seconds, running = self._quiet.quiet_seconds(now), self.count_running()
        overdue = [wait for wait in self.waits.open if wait.give_up is not None]
        if running:
            overdue = [wait for wait in overdue if wait.run is not None]
        if late := [(wait, hold) for wait in overdue if (hold := self._too_late(wait, now)) is not None]:
            return OverlongWaits(holds=late)
        if seconds >= self.bound_s and overdue:
            return OverdueWaits(waits=overdue, seconds=seconds)
        if seconds >= (self.bound_s if self._ended else self.work_bound_s) and running:
            return SilentRuns(runs=running, seconds=seconds)
        return None

    def act(self, stall: Stall, now: float) -> None:
        """End what *stall* names, report it, and start to count the time without progress anew."""
        match stall:
            case OverlongWaits(holds=held):
                self._refuse_waits(held, now)
            case OverdueWaits(waits=waits, seconds=seconds):
                self._end_waits(waits, seconds)
            case SilentRuns(runs=runs, seconds=seconds):
                left = f"what is in flight does not end by itself ({format_count(runs, 'run')})"
                message = f"nothing has happened for {seconds:.0f} s, and {left}"
                self.record_notice("stalled", {"seconds": round(seconds), "running": runs})
                self.control.cancel_runs("stalled", message)
        self._quiet.since = None

    async def _has_progressed(self, now: float) -> bool:
        stirred, self.waits.progressed = self.waits.progressed, False
        if stirred:
            return True
        if any(now <= end <= now + self.bound_s for wait in self.waits.open if (end := wait.known_end()) is not None):
            return True
        if not self.count_running():
            if self.control.pause is not None or all(wait.kind != "others" for wait in self.waits.open):
                return True
            before, self._other_runs = self._other_runs, await self.list_others()
            return self._other_runs != before
        return False

    def _too_late(self, wait: Wait, now: float) -> Hold | None:
        """The cause of *wait*, if it lasts beyond the bound."""
        hold = wait.find_hold() if wait.find_hold is not None else None
        return hold if hold is not None and hold.until > now + self.bound_s else None

    def _refuse_waits(self, late: Sequence[tuple[Wait, Hold]], now: float) -> None:
        for wait, hold in late:
            self._give_up(wait, Stalled(wait.kind, 0.0, self._explain_hold(hold, now)))
        message = self._explain_hold(min((hold for _, hold in late), key=lambda hold: hold.until), now)
        self._report_ended([wait for wait, _ in late], 0.0, why=message)
        self.control.start_draining("stalled", message)

    def _explain_hold(self, hold: Hold, now: float) -> str:
        remedy = "resume later, or with" if hold.flag is None else f"give a higher {hold.flag}, or"
        known = (
            f"{hold.cause} lets the next request go in {hold.until - now:.0f} s, and --max-stall is {self.bound_s:g} s"
        )
        return f"{known}: {remedy} a longer --max-stall"

    def _end_waits(self, overdue: Collection[Wait], seconds: float) -> None:
        runs = [wait.run for wait in overdue if wait.run is not None]
        message = f"nothing has happened for {seconds:.0f} s (--max-stall): ended {describe_waits(overdue)}"
        if self._other_runs and not runs:
            message += "; " + ", ".join(
                f"process {held.pid} on {one_line(held.host)} holds {held.runs}, the first at position {held.first}"
                for held in self._other_runs
            )
        for wait in overdue:
            self._give_up(wait, Stalled(wait.kind, seconds))
        self._report_ended(overdue, seconds)
        self.control.start_draining("stalled", message)

    def _give_up(self, wait: Wait, error: Stalled) -> None:
        self._ended = True
        if wait.give_up is not None:
            wait.give_up(error)

    def _report_ended(self, ended: Collection[Wait], seconds: float, **more: Json) -> None:
        runs: list[Json] = [*sorted({wait.run for wait in ended if wait.run is not None})[:100]]
        self.record_notice("stalled", {"seconds": round(seconds), "waits": describe_waits(ended), "runs": runs, **more})
