"""`status --watch`: the standing of a sweep, again every second, until it is done."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.cli.common import COMMON, print_data
from orchestrator.cli.hints import spell_line
from orchestrator.cli.streams import guard_printing
from orchestrator.reports.status import glance, standing
from orchestrator.reports.status.glance import Glance
from orchestrator.text import make_printable
from orchestrator.world import World, is_alive
from store.sql.reader import Reader

EVERY_S = 1.0
PLAIN_EVERY_S = 10.0
"""Where nothing can be drawn: how often a line is repeated although nothing has changed but the time."""

Show = Callable[[Glance], None]


def watch_sweep(path: Path, name: str, *, world: World) -> None:
    """Show the sweep until nothing is left to do and nobody works on it, or Ctrl-C. Only reads."""
    with Reader(path) as reader, _open_display(path, world) as show, _interruptible_wait() as interrupted:
        sweep = reader.find_sweep(name)
        over = False
        while not over:
            reader.refresh_snapshot()
            found = glance.glance_of(reader, sweep, now=world.wall(), is_alive=is_alive)
            show(found)
            over = found.over or interrupted(EVERY_S)


@contextmanager
def _interruptible_wait() -> Iterator[Callable[[float], bool]]:
    """A wait of so many seconds that Ctrl-C ends, and whether it did. No exception, which a finalizer may swallow."""
    heard, told = os.pipe()
    before = signal.signal(signal.SIGINT, lambda _number, _frame: os.write(told, b"!"))
    try:
        yield lambda seconds: bool(select.select([heard], [], [], seconds)[0])
    finally:
        signal.signal(signal.SIGINT, before)
        os.close(heard)
        os.close(told)


@contextmanager
def _open_display(path: Path, world: World) -> Iterator[Show]:
    if COMMON.json:
        yield lambda found: print_data(
            json.dumps(
                {"store": str(path), **standing.standing_to_json(found.standing), **glance.glance_to_json(found)}
            )
        )
    elif sys.stdout.isatty():
        with _draw_in_place(world) as show:
            yield show
    else:
        yield _make_plain_display(world)


def _make_plain_display(world: World) -> Show:
    """A line whenever something has changed, and now and then where nothing has."""
    before, said = "", world.monotonic()

    def print_glance(found: Glance) -> None:
        nonlocal before, said
        text, now = glance.heartbeat_line(found), world.monotonic()
        if text != before or now - said >= PLAIN_EVERY_S:
            before, said = text, now
            left = f", about {glance.format_span(found.left_s)} left" if found.left_s is not None else ""
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

        def draw_glance(found: Glance) -> None:
            lines = [*standing.standing_lines(found.standing), *glance.glance_lines(found)]
            text = "\n".join(spell_line(line, world.environment) for line in lines)
            live.update(Text(make_printable(text, sys.stdout.encoding)), refresh=True)

        yield draw_glance
