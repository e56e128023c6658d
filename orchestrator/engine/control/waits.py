"""Open waits of a process, and the timer that finds out when they last too long.

A wait is *overdue* when the process has made no progress at all for the bound: no data from a provider, no tool, no end
of another wait. So a run that queues behind busy ones is never overdue. The clock is read only to note when a wait
began.
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
"""Kind of wait -> its object in words, as it follows "waits for"."""


@attrs.define(slots=False)
class Stalled(EvalctlError):
    """A wait was given up: `--max-stall` passed without progress, or the wait was known to last longer."""

    kind: WaitKind
    seconds: float
    cause: str | None = None
    """Why the wait was known to last too long; None if it was not known."""

    def __str__(self) -> str:
        if self.cause is not None:
            return f"did not wait for {WAIT_NAMES[self.kind]}: {self.cause}"
        return f"waited for {WAIT_NAMES[self.kind]} and saw no progress for {self.seconds:.0f} s (--max-stall)"


class Waits:
    """Open waits of one process.

    Args:
        clock: returns seconds; the event loop's clock by default.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self.clock = clock or asyncio.get_running_loop().time
        self.open: set[Wait] = set()
        self.progressed = True
        """Whether there was progress since the watchdog last looked. The code that makes progress sets it."""

    def __repr__(self) -> str:
        return f"<Waits: {self.summarize_waits() or 'none'}>"

    def count_kinds(self) -> Counter[WaitKind]:
        """Count the open waits by kind."""
        return Counter(wait.kind for wait in self.open)

    def summarize_waits(self) -> str:
        """Describe the open waits, but those for an answer, like `2 wait for a retry (the next in 12 s)`."""
        counts = self.count_kinds()
        del counts["answer"]
        now = self.clock()
        phrases = []
        for kind, count in sorted(counts.items()):
            ends = [end for wait in self.open if wait.kind == kind and (end := wait.known_end()) is not None]
            when = f" (the next in {max(0.0, min(ends) - now):.0f} s)" if ends else ""
            phrases.append(f"{count} {'waits' if count == 1 else 'wait'} for {WAIT_NAMES[kind]}{when}")
        return ", ".join(phrases)


class Wait:
    """One wait: a `with` block, or the time from `begin_wait` to `end_wait`.

    Args:
        waits: the process's open waits.
        kind: the kind of event that it waits for.
        run: the position of the run that waits; None if the process waits.
        give_up: called when the wait is overdue; None if the wait has a bound of its own.
        until: the time at which it ends by itself, if known.
        find_hold: finds the hold that delays it until a known time, as of now; returns None if there is none.
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
        """The time at which the wait ends by itself; None if unknown."""
        hold = self.find_hold() if self.find_hold is not None else None
        return hold.until if hold is not None else self.until

    def begin_wait(self) -> None:
        """Begin the wait, unless it has begun."""
        if self not in self._waits.open:
            self.since = self._waits.clock()
            self._waits.open.add(self)

    def end_wait(self) -> None:
        """End the wait, unless it has ended. The end counts as progress."""
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
    """Cancel scope around an attempt, for the case that it waits too long, and the error with which it ends then."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.error: Stalled | None = None

    def give_up(self, error: Stalled) -> None:
        """End the attempt with *error*; the first error stays."""
        if self.error is None:
            self.error = error
            self.scope.cancel()


@attrs.define(kw_only=True)
class QuietTimer:
    """Timer of the time without progress. Pure: callers pass the time, about once per *tick_s*.

    Time during which the process did not run, because it was stopped or the machine slept, does not count.
    """

    tick_s: float
    since: float | None = None
    """Time of the last progress; None before the first look."""
    _last: float = attrs.field(init=False, default=0.0)

    def measure_quiet(self, now: float, *, progressed: bool) -> float:
        """Update the timer and return the seconds of quiet; *progressed*: there was progress since the last look."""
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
    """Describe waits like `1 wait for a retry, 3 waits for an answer`."""
    counts = Counter(WAIT_NAMES[wait.kind] for wait in waits)
    return ", ".join(
        f"{count} {'wait' if count == 1 else 'waits'} for {words}" for words, count in sorted(counts.items())
    )
