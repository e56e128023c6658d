"""How a sweep is told to stop or to pause: first gently, then for good."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Literal

import anyio

from orchestrator.text import one_line
from store.records import CommandRow

StopReason = Literal["budget", "deadline", "blocked", "stalled", "interrupt", "terminate", "cancelled"]


class Control:
    """The stop switch of this process's part of a sweep.

    *Draining* starts nothing new and lets running attempts end; *cancelling* ends them too. The first reason is kept,
    unless somebody cancels the whole sweep. A *pause* starts nothing new either, but is waited out.
    """

    def __init__(
        self, print_line: Callable[[str], None] = lambda _text: None, on_cancel: Callable[[], None] = lambda: None
    ) -> None:
        """Words go to *tell*; *at_once* is called when running attempts are to end."""
        self._print_line = print_line
        self._on_cancel = on_cancel
        self.why: StopReason | None = None
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

    def start_draining(self, why: StopReason, message: str) -> None:
        """Start nothing new."""
        if self.why is None:
            self.why, self.message = why, message
            self._print_line(message)
        self.draining.set()

    def cancel_runs(self, why: StopReason, message: str) -> None:
        """Start nothing new and end what runs."""
        if self.why is not None and not self.running.cancel_called:
            self._print_line(message)
        if why == "cancelled" and self.why is not None:
            self.why, self.message = why, message
        self.start_draining(why, message)
        if not self.running.cancel_called:
            self._on_cancel()
        self.running.cancel()

    def obey_command(self, command: CommandRow | None) -> None:
        """Do what the last order says, once; None is no order."""
        if command is None or command.id == self._obeyed:
            return
        self._obeyed = command.id
        if command.verb == "cancel":
            self.cancel_runs(
                "cancelled", f"cancelled by {describe_author(command)}: `resume --cancelled` runs what is skipped now"
            )
        elif command.verb == "pause":
            self._set_pause(command)
            self._print_line(f"{self.paused}: nothing new starts, running attempts finish")
        elif self.pause is not None:
            self._set_pause(None)
            self._print_line(f"continued by {describe_author(command)}")

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

    def _set_pause(self, command: CommandRow | None) -> None:
        self.pause = command
        self.changed.set()
        self.changed = anyio.Event()


def describe_author(command: CommandRow) -> str:
    """Who gave an order, and why where that was said; harmless for a terminal."""
    return one_line(command.who) + (f" ({one_line(command.why)})" if command.why else "")
