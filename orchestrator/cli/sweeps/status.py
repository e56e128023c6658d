"""The verb `status`: where a sweep stands."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.common import COMMON, out
from orchestrator.cli.hints import command, print_lines

if TYPE_CHECKING:
    from store.sql.reader import Reader

DEMO = "run demo --provider scripted --allow-write --allow-process"


def status(
    sweep: Annotated[
        str,
        typer.Argument(
            metavar="[SWEEP[/POSITION]]", help="A sweep's name, its beginning, or `last`.", show_default=False
        ),
    ] = "last",
    watch: Annotated[
        bool, typer.Option("--watch", help="Again every second, until all is done or Ctrl-C; both end with code 0.")
    ] = False,
    why: Annotated[bool, typer.Option("--why", help="Why the run SWEEP/POSITION is unfinished.")] = False,
) -> None:
    """Show where SWEEP stands, also while it runs.

    Results by outcome and cause, work left, what is waited for, processes, spending against caps, changes of limits,
    orders. Only reads. Without SWEEP: the newest. With --json a document; with --watch one per second, on a line each.
    """
    import json

    from orchestrator.cli.surroundings import store_of
    from orchestrator.engine import audit
    from orchestrator.reports.status import glance, standing
    from orchestrator.world import is_alive, real_world
    from store.sql.database import examine
    from store.sql.reader import Reader

    world = real_world()
    path = store_of(world)
    if sweep == "last" and examine(path) == "absent":
        _nothing_yet(path, world.environment)
        return
    with Reader(path) as reader:
        if sweep == "last" and not reader.sweeps(1):
            _nothing_yet(path, world.environment)
            return
        if why or "/" in sweep:
            _why(reader, sweep, world.wall())
            return
        now = glance.glance_of(reader, reader.sweep(sweep), now=world.wall(), is_alive=is_alive)
        found = now.standing
        books = audit.audit(reader, found.sweep, now=world.wall(), is_alive=is_alive)
    if watch:
        from orchestrator.cli.sweeps.watching import watch as keep_watching

        keep_watching(path, found.sweep.name, world=world)
    elif COMMON.json:
        facts = {**standing.document(found), **glance.document(now), "audit": audit.document(books)}
        out(json.dumps({"store": str(path), **facts}))
    else:
        print_lines([*standing.lines(found), *glance.lines(now), *audit.lines(books)], world.environment)


def _why(reader: Reader, what: str, now: int) -> None:
    import json

    from orchestrator.reports.status import why
    from orchestrator.reports.sweep_name import parse_sweep_name
    from orchestrator.text import printable
    from orchestrator.world import is_alive
    from store.errors import UsageError

    name = parse_sweep_name(what)
    position = name.position or ""
    if not (position.isascii() and position.isdigit()):
        raise UsageError(f"{what!r} is no run", "A run is written SWEEP/POSITION, such as last/3.")
    case = why.case_of(reader, reader.sweep(name.sweep), int(position[:20]), now=now, is_alive=is_alive)
    if COMMON.json:
        out(json.dumps(why.document(case)))
    else:
        out(printable("\n".join(why.lines(case)), sys.stdout.encoding))


def _nothing_yet(path: Path, environment: Mapping[str, str]) -> None:
    if COMMON.json:
        out('{"schema": "evalctl.status/1", "sweep": null}')
    else:
        out(f"There is no sweep yet in {path}. Start one with\n  {command(DEMO, environment)}")
        out(f"`{command('list', environment)}` shows what else there is to run.")
