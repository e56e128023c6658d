"""How a sweep is told to stop: first gently, then for good."""

from __future__ import annotations

import signal
from typing import Literal

import anyio

Why = Literal["budget", "deadline", "interrupt", "terminate", "store"]


class Control:
    """The stop switch of this process's part of a sweep.

    *Draining* starts nothing new and lets running attempts end; *cancelling* ends them too. The first reason is kept.
    """

    def __init__(self) -> None:
        self.why: Why | None = None
        self.draining = anyio.Event()
        self.running = anyio.CancelScope()
        """Around everything that executes runs; cancelled when they are not to be waited for."""
        self.signal: int | None = None

    def drain(self, why: Why) -> None:
        """Start nothing new."""
        self.why = self.why or why
        self.draining.set()

    def cancel(self, why: Why) -> None:
        """Start nothing new and end what runs."""
        self.drain(why)
        self.running.cancel()

    @property
    def cancelled(self) -> bool:
        """Whether running attempts are being ended."""
        return self.running.cancel_called

    async def listen(self) -> None:
        """Ctrl-C drains, a second one or SIGTERM cancels. Runs until it is cancelled itself."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                self.signal = number
                if number == signal.SIGTERM:
                    self.cancel("terminate")
                elif self.draining.is_set() and self.why == "interrupt":
                    self.cancel("interrupt")
                else:
                    self.why = "interrupt"
                    self.draining.set()

    async def expire(self, seconds: float) -> None:
        """Cancel when the sweep's deadline is reached."""
        await anyio.sleep(seconds)
        self.cancel("deadline")
