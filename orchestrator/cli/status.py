"""The verb `status`: where a sweep stands."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.common import COMMON, out
from orchestrator.cli.hints import command

DEMO = "run demo --provider scripted --allow-write --allow-process"


def status(
    sweep: Annotated[
        str, typer.Argument(metavar="[SWEEP]", help="A sweep's name, its beginning, or `last`.", show_default=False)
    ] = "last",
) -> None:
    """Show where SWEEP stands, also while it runs.

    Results by outcome and cause, work left, processes, spending against caps. Only reads. Without SWEEP: the newest.
    """
    import json

    from orchestrator.reports import standing
    from orchestrator.reports.plain import printable
    from orchestrator.world import is_alive, real_world
    from store.database import examine, locate_store
    from store.reader import Reader

    world = real_world()
    typed = partial(command, environment=world.environment)
    path = locate_store(COMMON.store, world.environment, Path.cwd())
    if sweep == "last" and examine(path) == "absent":
        _nothing_yet(path, typed)
        return
    with Reader(path) as reader:
        if sweep == "last" and not reader.sweeps(1):
            _nothing_yet(path, typed)
            return
        found = standing.standing_of(reader, reader.sweep(sweep), now=world.wall(), is_alive=is_alive)
    if COMMON.json:
        out(json.dumps({"store": str(path), **standing.document(found)}))
    else:
        out(printable("\n".join(standing.lines(found, typed)), sys.stdout.encoding))


def _nothing_yet(path: Path, typed: Callable[[str], str]) -> None:
    if COMMON.json:
        out('{"schema": "evalctl.status/1", "sweep": null}')
    else:
        out(f"There is no sweep yet in {path}. Start one with\n  {typed(DEMO)}")
        out(f"`{typed('list')}` shows what else there is to run.")
