"""Progress of a sweep: counts of acknowledged results, drawn as a bar on a terminal and printed as lines elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from store.rows import Ending

if TYPE_CHECKING:
    from store.records import OutcomeCount

HEARTBEAT_S = 10.0


class Progress:
    """Counts of the results that the ledger acknowledged: only durable results are progress."""

    def __init__(self, *, planned: int, before: Iterable[OutcomeCount], now: Callable[[], float]) -> None:
        """Start from the outcomes *before* this process joined; *now* is a clock in seconds."""
        self.planned = planned
        self.outcomes: Counter[str] = Counter()
        for tally in before:
            if not tally.again:
                self.outcomes[_outcome_word(tally.outcome, tally.reason)] += tally.count
        self.done = self.outcomes.total()
        self.late = 0
        """Attempts that ended after another attempt's result had been accepted."""
        self.in_flight: Callable[[], int] = lambda: 0
        self.remarks: Callable[[], Iterable[str]] = tuple
        """Further remarks for the line, such as the waits that are open."""
        self._now = now
        self._began = now()
        self._fresh = 0

    def count_acknowledged(self, ending: Ending, counts: bool) -> None:
        """Count an ending that is durable now; *counts* tells whether it is the run's result."""
        if not counts:
            self.late += 1
            return
        self._fresh += 1
        if not ending.again:
            self.done += 1
        self.outcomes[_outcome_word(ending.outcome, ending.reason)] += 1

    def progress_line(self) -> str:
        """Format the progress as one line of text."""
        seconds = max(self._now() - self._began, 1e-9)
        phrases = [f"{self.done}/{self.planned} done"]
        phrases += [f"{count} {word}" for word, count in sorted(self.outcomes.items())]
        phrases.append(f"{self.in_flight()} in flight")
        phrases.append(f"{self._fresh / seconds:.1f}/s")
        phrases += [remark for remark in self.remarks() if remark]
        return ", ".join(phrases)


def _outcome_word(outcome: str, reason: str | None) -> str:
    return outcome if reason is None or outcome == "fail" else f"{outcome}({reason})"


async def print_heartbeat(progress: Progress, say: Callable[[str], None], interval_s: float = HEARTBEAT_S) -> None:
    """Print a progress line per interval. Runs until cancelled."""
    while True:
        await anyio.sleep(interval_s)
        say(progress.progress_line())


async def draw_bar(progress: Progress) -> None:
    """Draw a progress bar on stderr. Runs until cancelled, also when the terminal goes away."""
    with suppress(OSError):
        await _redraw_bar(progress)
    await anyio.sleep_forever()


async def _redraw_bar(progress: Progress) -> None:
    from rich.console import Console  # noqa: PLC0415 - slow to import, and only a terminal needs it
    from rich.progress import BarColumn, TextColumn  # noqa: PLC0415 - (the same)
    from rich.progress import Progress as RichProgress  # noqa: PLC0415 - (the same)

    # No automatic refresh: rich's own drawing thread would not end when the terminal goes away.
    with RichProgress(
        TextColumn("{task.completed}/{task.total}"),
        BarColumn(),
        TextColumn("{task.description}"),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,
    ) as drawn:
        task = drawn.add_task("", total=progress.planned, completed=progress.done)
        while True:
            drawn.update(task, completed=progress.done, description=progress.progress_line(), refresh=True)
            await anyio.sleep(0.25)
