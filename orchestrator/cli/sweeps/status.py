"""The verb `status`: show the state of a sweep."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.common import COMMON, print_data, print_json
from orchestrator.cli.hints import format_command, print_lines

if TYPE_CHECKING:
    from store.sql.reader import Reader

DEMO_COMMAND = "run demo --provider scripted --allow-write --allow-process"


def status(
    sweep: Annotated[
        str,
        typer.Argument(
            metavar="[SWEEP[/POSITION]]", help="A sweep's name, a unique prefix, or `last`.", show_default=False
        ),
    ] = "last",
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Repeat every second until the sweep is done or Ctrl-C; both give exit code 0."),
    ] = False,
    why: Annotated[bool, typer.Option("--why", help="Explain why the run SWEEP/POSITION is unfinished.")] = False,
) -> None:
    """Show the state of SWEEP, also while it runs.

    Shows results by outcome and cause, runs left, waits, processes, spending against caps, changed limits, commands.
    Only reads. Without SWEEP: the newest. With --json it prints a document; with --watch one a second, each on a line.
    """
    from orchestrator.cli.sweep_setup import store_of
    from orchestrator.engine import audit
    from orchestrator.reports.status import glance, standing
    from orchestrator.world import is_alive, real_world
    from store.sql.database import examine_store
    from store.sql.reader import Reader

    world = real_world()
    path = store_of(world)
    if sweep == "last" and examine_store(path) == "absent":
        _print_no_sweep(path, world.environment)
        return
    with Reader(path) as reader:
        if sweep == "last" and not reader.list_sweeps(1):
            _print_no_sweep(path, world.environment)
            return
        if why or "/" in sweep:
            _explain_run(reader, sweep, world.wall())
            return
        now = glance.glance_of(reader, reader.find_sweep(sweep), now=world.wall(), is_alive=is_alive)
        state = now.standing
        books = audit.audit_sweep(reader, state.sweep, now=world.wall(), is_alive=is_alive)
    if watch:
        from orchestrator.cli.sweeps.watching import watch_sweep

        watch_sweep(path, state.sweep.name, world=world)
    elif COMMON.json:
        facts = {**standing.standing_to_json(state), **glance.glance_to_json(now), "audit": audit.audit_to_json(books)}
        print_json({"store": str(path), **facts})
    else:
        print_lines(
            [*standing.standing_lines(state), *glance.glance_lines(now), *audit.audit_lines(books)], world.environment
        )


def _explain_run(reader: Reader, typed: str, now: int) -> None:

    from orchestrator.reports.status import why
    from orchestrator.reports.sweep_name import parse_sweep_name
    from orchestrator.text import make_printable
    from orchestrator.world import is_alive
    from store.errors import UsageError

    name = parse_sweep_name(typed)
    position = name.position or ""
    if not (position.isascii() and position.isdigit()):
        raise UsageError(f"{typed!r} is not a run", "Write a run as SWEEP/POSITION, such as last/3.")
    state = why.run_status_of(reader, reader.find_sweep(name.sweep), int(position[:20]), now=now, is_alive=is_alive)
    if COMMON.json:
        print_json(why.why_to_json(state))
    else:
        print_data(make_printable("\n".join(why.why_lines(state)), sys.stdout.encoding))


def _print_no_sweep(path: Path, environment: Mapping[str, str]) -> None:
    if COMMON.json:
        print_data('{"schema": "evalctl.status/1", "sweep": null}')
    else:
        print_data(f"There is no sweep yet in {path}. Start one with\n  {format_command(DEMO_COMMAND, environment)}")
        print_data(f"`{format_command('list', environment)}` lists the other suites.")
