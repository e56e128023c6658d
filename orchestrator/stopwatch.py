"""A run's wall budget: a stopwatch that stands still while the run waits at the gate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class Stopwatch:
    """Measures work and waiting apart, and cancels the work when its limit has been worked off.

    Use as `with stopwatch.running():` around the work; call `waiting()` around every wait that is not the run's
    fault. Waits may overlap; the watch runs again when the last one ends. Times come from the event loop's clock.
    """

    def __init__(self, limit_s: float | None) -> None:
        self.limit_s = limit_s
        self.worked_s = 0.0
        self.waited_s = 0.0
        self._scope: anyio.CancelScope | None = None
        self._waits = 0
        self._since = 0.0

    @property
    def expired(self) -> bool:
        """Whether the limit ended the work."""
        return self._scope is not None and self._scope.cancelled_caught

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the watch; when the limit is reached, cancel what is inside and leave it quietly."""
        self._since = anyio.current_time()
        with anyio.CancelScope() as self._scope:
            self._arm()
            try:
                yield
            finally:
                self._count()
                self._scope.deadline = float("inf")

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Stop the watch for the time of a wait."""
        self._count()
        self._waits += 1
        self._arm()
        try:
            yield
        finally:
            self._count()
            self._waits -= 1
            self._arm()

    def _count(self) -> None:
        now = anyio.current_time()
        if self._waits:
            self.waited_s += now - self._since
        else:
            self.worked_s += now - self._since
        self._since = now

    def _arm(self) -> None:
        if self._scope is None or self.limit_s is None:
            return
        left = self.limit_s - self.worked_s
        self._scope.deadline = float("inf") if self._waits else anyio.current_time() + left
