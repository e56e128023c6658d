"""Stop switch of one process: reasons to stop or pause, first gently, then at once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Literal

import anyio

from orchestrator.text import one_line
from store.records import CommandRow

StopReason = Literal["budget", "deadline", "blocked", "stalled", "interrupt", "terminate", "cancelled"]


class Control:
    """Stop switch of one process's work on a sweep.

    *Draining* starts no new runs and lets running attempts finish; *cancelling* ends them as well. The first reason
    stays, unless the whole sweep is cancelled. A *pause* starts no new runs until it ends.
    """

    def __init__(
        self, print_line: Callable[[str], None] = lambda _text: None, on_cancel: Callable[[], None] = lambda: None
    ) -> None:
        """*print_line* prints each reason; *on_cancel* is called once, before running attempts are cancelled."""
        self._print_line = print_line
        self._on_cancel = on_cancel
        self.why: StopReason | None = None
        self.message = ""
        """The reason in words."""
        self.draining = anyio.Event()
        self.running = anyio.CancelScope()
        """The scope around everything that executes runs; cancelling ends them."""
        self.signal: int | None = None
        """The last signal that the process received."""
        self.pause: CommandRow | None = None
        """The pause in force; None while the process may start runs."""
        self.changed = anyio.Event()
        """Set, and replaced by a new one, when a pause begins or ends."""
        self._interrupted = False
        self._obeyed: int | None = None

    @property
    def paused(self) -> str:
        """Author and reason of the pause in words; empty if there is none."""
        return f"paused by {describe_author(self.pause)}" if self.pause is not None else ""

    def start_draining(self, why: StopReason, message: str) -> None:
        """Start no new runs."""
        if self.why is None:
            self.why, self.message = why, message
            self._print_line(message)
        self.draining.set()

    def cancel_runs(self, why: StopReason, message: str) -> None:
        """Start no new runs and end the running ones."""
        if self.why is not None and not self.running.cancel_called:
            self._print_line(message)
        if why == "cancelled" and self.why is not None:
            self.why, self.message = why, message
        self.start_draining(why, message)
        if not self.running.cancel_called:
            self._on_cancel()
        self.running.cancel()

    def obey_command(self, command: CommandRow | None) -> None:
        """Obey the last command, once; None is no command."""
        if command is None or command.id == self._obeyed:
            return
        self._obeyed = command.id
        if command.verb == "cancel":
            self.cancel_runs(
                "cancelled", f"cancelled by {describe_author(command)}; `resume --cancelled` runs the skipped runs"
            )
        elif command.verb == "pause":
            self._set_pause(command)
            self._print_line(f"{self.paused}: no new runs start, running attempts finish")
        elif self.pause is not None:
            self._set_pause(None)
            self._print_line(f"continued by {describe_author(command)}")

    async def listen_to_signals(self) -> None:
        """Drain on Ctrl-C; cancel on a second one, SIGTERM or SIGHUP. Runs until it is cancelled itself.

        A SIGHUP that was ignored at the start, as under `nohup`, stays ignored.
        """
        numbers = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        with anyio.open_signal_receiver(*numbers) as signals:
            async for number in signals:
                self.signal = number
                if number != signal.SIGINT:
                    self.cancel_runs("terminate", f"{number.name}: ending running attempts")
                elif self._interrupted:
                    self.cancel_runs("interrupt", "Ctrl-C twice: ending running attempts")
                else:
                    self._interrupted = True
                    self.start_draining(
                        "interrupt", "Ctrl-C: no new runs start, running attempts finish; press it again to end them"
                    )

    async def cancel_at_deadline(self, seconds: float) -> None:
        """Cancel after *seconds*, the deadline of this process."""
        await anyio.sleep(seconds)
        self.cancel_runs("deadline", "--max-wall is over: ending running attempts")

    def _set_pause(self, command: CommandRow | None) -> None:
        self.pause = command
        self.changed.set()
        self.changed = anyio.Event()


def describe_author(command: CommandRow) -> str:
    """Describe a command's author and, if given, its reason; harmless for a terminal."""
    return one_line(command.who) + (f" ({one_line(command.why)})" if command.why else "")
