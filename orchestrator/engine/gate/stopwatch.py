"""Stopwatch of a run's wall budget: it stands still while the run waits at the gate."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class Stopwatch:
    """Measures work and waiting separately, and cancels the work when its time reaches the limit.

    Use `with stopwatch.run_watch():` around the work, and `pause_watch()`, or `stop_watch` and `restart_watch`, around
    every wait that is not part of the work. Waits may overlap; the watch runs again when the last one ends. Times come
    from the event loop's clock, so create the stopwatch inside a running loop.
    """

    def __init__(self, limit_s: float | None) -> None:
        self.limit_s = limit_s
        self.worked_s = 0.0
        self.waited_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._scope: anyio.CancelScope | None = None
        self._running = False
        self._alarm: asyncio.TimerHandle | None = None
        self._waits = 0
        self._since = 0.0

    @property
    def expired(self) -> bool:
        """Whether the limit cancelled the work."""
        return self._scope is not None and self._scope.cancelled_caught

    @contextmanager
    def run_watch(self) -> Iterator[None]:
        """Run the watch; at the limit, cancel the block and leave it without an error."""
        self._since = self._loop.time()
        with anyio.CancelScope() as self._scope:
            self._running = True
            self._set_alarm()
            try:
                yield
            finally:
                self._count_elapsed()
                self._running = False
                if self._alarm is not None:
                    self._alarm.cancel()

    @contextmanager
    def pause_watch(self) -> Iterator[None]:
        """Stop the watch for the time of a wait."""
        self.stop_watch()
        try:
            yield
        finally:
            self.restart_watch()

    def stop_watch(self) -> None:
        """Stop the watch at the beginning of a wait."""
        self._count_elapsed()
        self._waits += 1

    def restart_watch(self) -> None:
        """Run the watch again at the end of a wait, unless another wait goes on."""
        self._count_elapsed()
        self._waits -= 1
        if self._alarm is None:
            self._set_alarm()

    def _count_elapsed(self) -> None:
        now = self._loop.time()
        if self._waits:
            self.waited_s += now - self._since
        else:
            self.worked_s += now - self._since
        self._since = now

    def _set_alarm(self) -> None:
        """Set the alarm for the earliest time of the limit. An alarm that rings too early because of waits is set
        again, which costs less than moving it at every wait.
        """
        if self._scope is None or self.limit_s is None or not self._running or self._waits:
            return
        left = self.limit_s - self.worked_s
        if left > 0:
            self._alarm = self._loop.call_later(left, self._cancel_at_limit)
        else:
            self._scope.cancel()

    def _cancel_at_limit(self) -> None:
        self._alarm = None
        self._count_elapsed()
        self._set_alarm()  # does nothing during a wait; its end sets the alarm
