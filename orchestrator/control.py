"""How a sweep is told to stop: first gently, then for good."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Literal

import anyio

Why = Literal["budget", "deadline", "blocked", "interrupt", "terminate"]


class Control:
    """The stop switch of this process's part of a sweep.

    *Draining* starts nothing new and lets running attempts end; *cancelling* ends them too. The first reason is kept.
    """

    def __init__(self, tell: Callable[[str], None] = lambda _text: None) -> None:
        self._tell = tell
        self.why: Why | None = None
        self.message = ""
        """The reason in words."""
        self.draining = anyio.Event()
        self.running = anyio.CancelScope()
        """Around everything that executes runs; cancelled when they are not to be waited for."""
        self.signal: int | None = None
        """The last signal that was received."""
        self._interrupted = False

    def drain(self, why: Why, message: str) -> None:
        """Start nothing new."""
        if self.why is None:
            self.why, self.message = why, message
            self._tell(message)
        self.draining.set()

    def cancel(self, why: Why, message: str) -> None:
        """Start nothing new and end what runs."""
        if self.why is not None and not self.running.cancel_called:
            self._tell(message)
        self.drain(why, message)
        self.running.cancel()

    async def listen(self) -> None:
        """Ctrl-C drains, a second one or SIGTERM cancels. Runs until it is cancelled itself."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                self.signal = number
                if number == signal.SIGTERM:
                    self.cancel("terminate", "SIGTERM: running attempts are ended")
                elif self._interrupted:
                    self.cancel("interrupt", "Ctrl-C twice: running attempts are ended")
                else:
                    self._interrupted = True
                    self.drain("interrupt", "Ctrl-C: nothing new starts, running attempts finish; once more ends them")

    async def expire(self, seconds: float) -> None:
        """Cancel when the sweep's deadline is reached."""
        await anyio.sleep(seconds)
        self.cancel("deadline", "--max-wall was reached")
