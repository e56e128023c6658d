"""The verb `status`: where a sweep stands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.common import COMMON, out

START = (
    "There is no sweep yet. Start one with\n"
    "  evalctl run demo --provider scripted --allow-write --allow-process\n"
    "`evalctl list` shows what else there is to run."
)


def status(
    sweep: Annotated[
        str, typer.Argument(metavar="[SWEEP]", help="A sweep's name, its beginning, or `last`.", show_default=False)
    ] = "last",
) -> None:
    """Show where SWEEP stands: results by outcome and cause, work left, processes, spending against caps.

    Without SWEEP: the newest one. Only reads, also while the sweep is running.
    """
    import json

    from orchestrator.reports import standing
    from orchestrator.reports.plain import printable
    from orchestrator.world import is_alive, real_world
    from store.database import examine, locate_store
    from store.reader import Reader

    world = real_world()
    path = locate_store(COMMON.store, world.environment, Path.cwd())
    if sweep == "last" and examine(path) == "absent":
        _nothing_yet()
        return
    with Reader(path) as reader:
        if sweep == "last" and not reader.sweeps(1):
            _nothing_yet()
            return
        found = standing.standing_of(reader, reader.sweep(sweep), now=world.wall(), is_alive=is_alive)
    if COMMON.json:
        out(json.dumps({"store": str(path), **standing.document(found)}))
    else:
        out(printable("\n".join(standing.lines(found)), sys.stdout.encoding))


def _nothing_yet() -> None:
    if COMMON.json:
        out('{"schema": "evalctl.status/1", "sweep": null}')
    else:
        out(START)
