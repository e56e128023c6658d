"""`status --watch`: show the state of a sweep every second until it is done."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.cli.common import COMMON, print_data, print_json
from orchestrator.cli.hints import spell_line
from orchestrator.cli.streams import guard_printing
from orchestrator.reports.status import glance, standing
from orchestrator.reports.status.glance import Glance
from orchestrator.text import make_printable
from orchestrator.world import World, is_alive
from store.sql.reader import Reader

REFRESH_S = 1.0
PLAIN_REPEAT_S = 10.0
"""Without a terminal: the time after which an unchanged line is printed again."""

Show = Callable[[Glance], None]


def watch_sweep(path: Path, name: str, *, world: World) -> None:
    """Show the sweep until nothing is left to do and no process works on it, or Ctrl-C. Only reads."""
    with Reader(path) as reader, _open_display(path, world) as show, _interruptible_wait() as interrupted:
        sweep = reader.find_sweep(name)
        over = False
        while not over:
            reader.refresh_snapshot()
            state = glance.glance_of(reader, sweep, now=world.wall(), is_alive=is_alive)
            show(state)
            over = state.over or interrupted(REFRESH_S)


@contextmanager
def _interruptible_wait() -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits so many seconds and returns whether Ctrl-C ended the wait.

    It raises no KeyboardInterrupt, which a finalizer might swallow.
    """
    receiver, sender = os.pipe()
    before = signal.signal(signal.SIGINT, lambda _number, _frame: os.write(sender, b"!"))
    try:
        yield lambda seconds: bool(select.select([receiver], [], [], seconds)[0])
    finally:
        signal.signal(signal.SIGINT, before)
        os.close(receiver)
        os.close(sender)


@contextmanager
def _open_display(path: Path, world: World) -> Iterator[Show]:
    if COMMON.json:
        yield lambda state: print_json(
            {"store": str(path), **standing.standing_to_json(state.standing), **glance.glance_to_json(state)}
        )
    elif sys.stdout.isatty():
        with _draw_in_place(world) as show:
            yield show
    else:
        yield _make_plain_display(world)


def _make_plain_display(world: World) -> Show:
    """Make a display that prints a line when the state has changed, and otherwise every `PLAIN_REPEAT_S`."""
    last_text, printed_at = "", world.monotonic()

    def print_glance(state: Glance) -> None:
        nonlocal last_text, printed_at
        text, now = glance.heartbeat_line(state), world.monotonic()
        if text != last_text or now - printed_at >= PLAIN_REPEAT_S:
            last_text, printed_at = text, now
            left = f", about {glance.format_span(state.left_s)} left" if state.left_s is not None else ""
            print_data(make_printable(f"{text}{left}", sys.stdout.encoding))

    return print_glance


@contextmanager
def _draw_in_place(world: World) -> Iterator[Show]:
    """Redraw in place on the terminal."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False, no_color=not COMMON.color)
    with guard_printing(), Live(console=console, auto_refresh=False) as live:

        def draw_glance(state: Glance) -> None:
            lines = [*standing.standing_lines(state.standing), *glance.glance_lines(state)]
            text = "\n".join(spell_line(line, world.environment) for line in lines)
            live.update(Text(make_printable(text, sys.stdout.encoding)), refresh=True)

        yield draw_glance
