"""How a sweep is told to stop or to pause: first gently, then for good."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Literal

import anyio

from orchestrator.text import one_line
from store.records import CommandRow

Why = Literal["budget", "deadline", "blocked", "stalled", "interrupt", "terminate", "cancelled"]


class Control:
    """The stop switch of this process's part of a sweep.

    *Draining* starts nothing new and lets running attempts end; *cancelling* ends them too. The first reason is kept,
    unless somebody cancels the whole sweep. A *pause* starts nothing new either, but is waited out.
    """

    def __init__(
        self, tell: Callable[[str], None] = lambda _text: None, at_once: Callable[[], None] = lambda: None
    ) -> None:
        """Words go to *tell*; *at_once* is called when running attempts are to end."""
        self._tell = tell
        self._at_once = at_once
        self.why: Why | None = None
        self.message = ""
        """The reason in words."""
        self.draining = anyio.Event()
        self.running = anyio.CancelScope()
        """Around everything that executes runs; cancelled when they are not to be waited for."""
        self.signal: int | None = None
        """The last signal that was received."""
        self.pause: CommandRow | None = None
        """The order that holds this process back; None while it may start runs."""
        self.changed = anyio.Event()
        """Set, and replaced by a new one, when a pause begins or ends."""
        self._interrupted = False
        self._obeyed: int | None = None

    @property
    def paused(self) -> str:
        """By whom and why the sweep is paused; empty when it is not."""
        return f"paused by {describe_author(self.pause)}" if self.pause is not None else ""

    def start_draining(self, why: Why, message: str) -> None:
        """Start nothing new."""
        if self.why is None:
            self.why, self.message = why, message
            self._tell(message)
        self.draining.set()

    def cancel_runs(self, why: Why, message: str) -> None:
        """Start nothing new and end what runs."""
        if self.why is not None and not self.running.cancel_called:
            self._tell(message)
        if why == "cancelled" and self.why is not None:
            self.why, self.message = why, message
        self.start_draining(why, message)
        if not self.running.cancel_called:
            self._at_once()
        self.running.cancel()

    def obey_command(self, order: CommandRow | None) -> None:
        """Do what the last order says, once; None is no order."""
        if order is None or order.id == self._obeyed:
            return
        self._obeyed = order.id
        if order.verb == "cancel":
            self.cancel_runs(
                "cancelled", f"cancelled by {describe_author(order)}: `resume --cancelled` runs what is skipped now"
            )
        elif order.verb == "pause":
            self._set_pause(order)
            self._tell(f"{self.paused}: nothing new starts, running attempts finish")
        elif self.pause is not None:
            self._set_pause(None)
            self._tell(f"continued by {describe_author(order)}")

    async def listen_to_signals(self) -> None:
        """Ctrl-C drains, a second one, SIGTERM or SIGHUP cancels. Runs until it is cancelled itself.

        A SIGHUP that was ignored from the start, as under `nohup`, stays ignored.
        """
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        with anyio.open_signal_receiver(*numbers) as signals:
            async for number in signals:
                self.signal = number
                if number != signal.SIGINT:
                    self.cancel_runs("terminate", f"{number.name}: running attempts are ended")
                elif self._interrupted:
                    self.cancel_runs("interrupt", "Ctrl-C twice: running attempts are ended")
                else:
                    self._interrupted = True
                    self.start_draining(
                        "interrupt", "Ctrl-C: nothing new starts, running attempts finish; once more ends them"
                    )

    async def cancel_at_deadline(self, seconds: float) -> None:
        """Cancel when the sweep's deadline is reached."""
        await anyio.sleep(seconds)
        self.cancel_runs("deadline", "--max-wall was reached")

    def _set_pause(self, order: CommandRow | None) -> None:
        self.pause = order
        self.changed.set()
        self.changed = anyio.Event()


def describe_author(order: CommandRow) -> str:
    """Who gave an order, and why where that was said; harmless for a terminal."""
    return one_line(order.who) + (f" ({one_line(order.why)})" if order.why else "")
