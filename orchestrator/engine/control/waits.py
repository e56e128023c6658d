"""What a process waits for, and when it has waited too long.

A wait is *overdue* when nothing at all has happened in the process for the bound: no word of a provider, no tool, no
end of another wait. So a run that queues behind busy ones is never overdue, and one that waits for what will never come
is. Nothing here looks at a clock by itself but to note when a wait began.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Literal

import anyio
import attrs

from orchestrator.engine.hold import Hold
from store.errors import EvalctlError

WaitKind = Literal["answer", "budget", "others", "permit", "retry", "store"]

WAIT_NAMES: Mapping[WaitKind, str] = {
    "answer": "an answer",
    "budget": "room in the sweep's caps",
    "others": "another process's runs",
    "permit": "a permit of the account",
    "retry": "a retry",
    "store": "the store",
}
"""What is waited for, as it follows "waits for"."""


@attrs.define(slots=False)
class Stalled(EvalctlError):
    """Something was waited for while nothing happened, for longer than `--max-stall`, or could only come after that."""

    kind: WaitKind
    seconds: float
    cause: str | None = None
    """Why it could not come in time."""

    def __str__(self) -> str:
        if self.cause is not None:
            return f"did not wait for {WAIT_NAMES[self.kind]}: {self.cause}"
        return f"waited for {WAIT_NAMES[self.kind]} while nothing happened for {self.seconds:.0f} s (--max-stall)"


class Waits:
    """The waits of one process that are going on now.

    Args:
        clock: seconds; the event loop's unless given.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self.clock = clock or asyncio.get_running_loop().time
        self.open: set[Wait] = set()
        self.progressed = True
        """Whether something has happened since `Quiet` last looked. Whoever makes something happen sets it."""

    def __repr__(self) -> str:
        return f"<Waits: {self.summarize_waits() or 'none'}>"

    def count_kinds(self) -> Counter[WaitKind]:
        """How many wait for what."""
        return Counter(wait.kind for wait in self.open)

    def summarize_waits(self) -> str:
        """`2 wait for a retry (the next in 12 s)`; without those that only wait for an answer."""
        counts = self.count_kinds()
        del counts["answer"]
        now = self.clock()
        parts = []
        for what, count in sorted(counts.items()):
            ends = [end for wait in self.open if wait.kind == what and (end := wait.known_end()) is not None]
            when = f" (the next in {max(0.0, min(ends) - now):.0f} s)" if ends else ""
            parts.append(f"{count} {'waits' if count == 1 else 'wait'} for {WAIT_NAMES[what]}{when}")
        return ", ".join(parts)


class Wait:
    """One wait, from the beginning to the end of a `with` block, or from `begin_wait` to `end_wait`.

    Args:
        waits: where it is entered.
        what: what is waited for.
        run: the position of the run that waits; None where it is the process.
        give_up: told when the wait is overdue; None where the wait has a bound of its own.
        until: when it will be over by itself, where that is known.
        held: what makes it last until a time that is known, as things are now; None where nothing does.
    """

    __slots__ = ("_waits", "find_hold", "give_up", "kind", "run", "since", "until")

    def __init__(
        self,
        waits: Waits,
        kind: WaitKind,
        run: int | None = None,
        give_up: Callable[[Stalled], None] | None = None,
        *,
        until: float | None = None,
        find_hold: Callable[[], Hold | None] | None = None,
    ) -> None:
        self._waits = waits
        self.kind = kind
        self.run = run
        self.give_up = give_up
        self.until = until
        self.find_hold = find_hold
        self.since = 0.0

    def known_end(self) -> float | None:
        """When it will be over by itself, where that is known now."""
        hold = self.find_hold() if self.find_hold is not None else None
        return hold.until if hold is not None else self.until

    def begin_wait(self) -> None:
        """It begins, unless it has begun."""
        if self not in self._waits.open:
            self.since = self._waits.clock()
            self._waits.open.add(self)

    def end_wait(self) -> None:
        """It is over; something has happened, if only that."""
        if self in self._waits.open:
            self._waits.open.discard(self)
            self._waits.progressed = True

    def __enter__(self) -> None:
        self.begin_wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_wait()


class StallScope:
    """What ends an attempt that waits too long: a scope around it, and the error it then ends with."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.error: Stalled | None = None

    def give_up(self, error: Stalled) -> None:
        """End the attempt; the first reason stands."""
        if self.error is None:
            self.error = error
            self.scope.cancel()


@attrs.define(kw_only=True)
class QuietTimer:
    """For how long nothing has happened. Pure: it is told the time, about once per *tick_s*.

    Time during which the process itself did not run, stopped or on a sleeping machine, is not counted.
    """

    tick_s: float
    since: float | None = None
    """When something last happened; None before the first look."""
    _last: float = attrs.field(init=False, default=0.0)

    def measure_quiet(self, now: float, *, progressed: bool) -> float:
        """Seconds of quiet at *now*; *stirred* tells whether something has happened since the last look."""
        absent = max(0.0, now - self._last - 2 * self.tick_s)
        self._last = now
        if progressed or self.since is None:
            self.since = now
        elif absent:
            self.since += absent
        return self.quiet_seconds(now)

    def quiet_seconds(self, now: float) -> float:
        """Seconds of quiet at *now*; 0 before the first look."""
        return 0.0 if self.since is None else now - self.since


def describe_waits(waits: Iterable[Wait]) -> str:
    """`1 wait for a retry, 3 waits for an answer`, for people."""
    counts = Counter(WAIT_NAMES[wait.kind] for wait in waits)
    return ", ".join(
        f"{count} {'wait' if count == 1 else 'waits'} for {words}" for words, count in sorted(counts.items())
    )
