"""Stall watchdog: ends a process that has made no progress for `--max-stall`, and reports what it was waiting for."""

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
    """Waits that are known to last longer than the bound, each with its hold."""

    holds: Sequence[tuple[Wait, Hold]]


@attrs.frozen(kw_only=True)
class OverdueWaits:
    """Waits of a process without progress for the bound."""

    waits: Sequence[Wait]
    seconds: float


@attrs.frozen(kw_only=True)
class SilentRuns:
    """Number of runs in flight without progress for the bound, and without a wait that the watchdog can end."""

    runs: int
    seconds: float


Stall = OverlongWaits | OverdueWaits | SilentRuns
"""The reason to end waits or runs."""


@attrs.define(kw_only=True)
class Watchdog:
    """Stall watchdog of one process: `observe`, then `decide` (pure), then `act`.

    It does not touch waits with a bound of their own, nor waits that are known to end within the bound; waits that are
    known to last longer it ends at once. After it has ended a wait, the process starts no new runs: they would most
    likely wait for the same thing.
    """

    waits: Waits
    control: Control
    bound_s: float
    """Maximum time without progress while there are waits, and maximum length of a wait with a known end."""
    work_bound_s: float
    """Maximum time without progress while runs only work."""
    count_running: Callable[[], int]
    """Runs in flight in this process."""
    list_others: Callable[[], Awaitable[Collection[HeldRuns]]]
    """Lists the runs that other living processes hold."""
    record_notice: Callable[[str, dict[str, Json]], None]
    """Records a notice: kind and payload."""
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
        """Observe the process at *now* (seconds). Return whether it progressed since the last call, or need not."""
        progressed = await self._has_progressed(now)
        self._quiet.measure_quiet(now, progressed=progressed)
        return progressed

    def decide(self, now: float) -> Stall | None:
        """Decide what has to end at *now*, from the observations; None if nothing has to. Changes nothing."""
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
        """End the waits or runs of *stall*, report them, and restart the timer."""
        match stall:
            case OverlongWaits(holds=holds):
                self._refuse_waits(holds, now)
            case OverdueWaits(waits=waits, seconds=seconds):
                self._end_waits(waits, seconds)
            case SilentRuns(runs=runs, seconds=seconds):
                message = f"no progress for {seconds:.0f} s with {format_count(runs, 'run')} in flight: ending them"
                self.record_notice("stalled", {"seconds": round(seconds), "running": runs})
                self.control.cancel_runs("stalled", message)
        self._quiet.since = None

    async def _has_progressed(self, now: float) -> bool:
        progressed, self.waits.progressed = self.waits.progressed, False
        if progressed:
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
        """Find the hold of *wait*, if it lasts longer than the bound."""
        hold = wait.find_hold() if wait.find_hold is not None else None
        return hold if hold is not None and hold.until > now + self.bound_s else None

    def _refuse_waits(self, holds: Sequence[tuple[Wait, Hold]], now: float) -> None:
        for wait, hold in holds:
            self._give_up(wait, Stalled(wait.kind, 0.0, self._explain_hold(hold, now)))
        message = self._explain_hold(min((hold for _, hold in holds), key=lambda hold: hold.until), now)
        self._report_ended([wait for wait, _ in holds], 0.0, why=message)
        self.control.start_draining("stalled", message)

    def _explain_hold(self, hold: Hold, now: float) -> str:
        remedy = "resume later, or raise" if hold.flag is None else f"raise {hold.flag} or"
        wait_s = hold.until - now
        return (
            f"{hold.cause} allows the next request in {wait_s:.0f} s, but --max-stall is {self.bound_s:g} s: "
            f"{remedy} --max-stall"
        )

    def _end_waits(self, overdue: Collection[Wait], seconds: float) -> None:
        runs = [wait.run for wait in overdue if wait.run is not None]
        message = f"no progress for {seconds:.0f} s (--max-stall): ended {describe_waits(overdue)}"
        if self._other_runs and not runs:
            message += "; " + ", ".join(
                f"process {other.pid} on {one_line(other.host)} holds {format_count(other.runs, 'run')}, "
                f"the first at position {other.first}"
                for other in self._other_runs
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
