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

from orchestrator.cli.common import COMMON, out
from orchestrator.cli.hints import spell_line
from orchestrator.cli.streams import printing
from orchestrator.reports.status import glance, standing
from orchestrator.reports.status.glance import Glance
from orchestrator.text import printable
from orchestrator.world import World, is_alive
from store.sql.reader import Reader

EVERY_S = 1.0
PLAIN_EVERY_S = 10.0
"""Where nothing can be drawn: how often a line is repeated although nothing has changed but the time."""

Show = Callable[[Glance], None]


def watch(path: Path, name: str, *, world: World) -> None:
    """Show the sweep until nothing is left to do and nobody works on it, or Ctrl-C. Only reads."""
    with Reader(path) as reader, _display(path, world) as show, _interrupted() as interrupted:
        sweep = reader.sweep(name)
        over = False
        while not over:
            reader.refresh()
            found = glance.glance_of(reader, sweep, now=world.wall(), is_alive=is_alive)
            show(found)
            over = found.over or interrupted(EVERY_S)


@contextmanager
def _interrupted() -> Iterator[Callable[[float], bool]]:
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
def _display(path: Path, world: World) -> Iterator[Show]:
    if COMMON.json:
        yield lambda found: out(
            json.dumps({"store": str(path), **standing.document(found.standing), **glance.document(found)})
        )
    elif sys.stdout.isatty():
        with _drawing(world) as show:
            yield show
    else:
        yield _plain(world)


def _plain(world: World) -> Show:
    """A line whenever something has changed, and now and then where nothing has."""
    before, said = "", world.monotonic()

    def show(found: Glance) -> None:
        nonlocal before, said
        text, now = glance.line(found), world.monotonic()
        if text != before or now - said >= PLAIN_EVERY_S:
            before, said = text, now
            left = f", about {glance.span(found.left_s)} left" if found.left_s is not None else ""
            out(printable(f"{text}{left}", sys.stdout.encoding))

    return show


@contextmanager
def _drawing(world: World) -> Iterator[Show]:
    """Redraw in place on the terminal."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(file=sys.stdout, highlight=False, no_color=not COMMON.color)
    with printing(), Live(console=console, auto_refresh=False) as live:

        def show(found: Glance) -> None:
            lines = [*standing.lines(found.standing), *glance.lines(found)]
            text = "\n".join(spell_line(line, world.environment) for line in lines)
            live.update(Text(printable(text, sys.stdout.encoding)), refresh=True)

        yield show
