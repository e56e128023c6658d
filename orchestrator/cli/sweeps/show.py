"""The verb `show`: show a sweep's report, or everything about one run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.common import COMMON, print_data, print_json
from orchestrator.cli.hints import print_lines

if TYPE_CHECKING:
    from store.sql.reader import Reader


def show(
    typed: Annotated[
        str,
        typer.Argument(
            metavar="SWEEP[:VARIANT][/POSITION]",
            help="A sweep, one of its variants, or one of its runs; names may be shortened, or `last`.",
        ),
    ],
    attempt: Annotated[
        int | None,
        typer.Option(
            "--attempt", min=1, metavar="N", help="Show this attempt at the run instead of the one that counts."
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Do not shorten texts in a run's transcript.")] = False,
    runs: Annotated[bool, typer.Option("--runs", help="List every run of the sweep, one per line.")] = False,
) -> None:
    """Show a sweep's report, or one run.

    SWEEP shows the report that `run` or `lab` printed, built again from the stored rows, with results added since. With
    --runs it lists the runs and their outcomes. SWEEP:VARIANT shows the report of one variant, or of one target of a
    lab. SWEEP/POSITION shows one run: its outcome, the verdicts of verifiers or assertions, its attempts and files, how
    a lab decided it, and the transcript.
    """
    from orchestrator.cli.sweep_setup import store_of
    from orchestrator.reports.sweep_name import parse_sweep_name
    from orchestrator.world import real_world
    from store.errors import UsageError
    from store.sql.reader import Reader

    name = parse_sweep_name(typed)
    with Reader(store_of(real_world())) as reader:
        if runs and name.position is not None:
            raise UsageError("--runs lists a whole sweep", f"Name the sweep without a position: {name.sweep}.")
        if runs and name.arm is not None:
            raise UsageError("positions count over all variants of a sweep", f"Name the sweep alone: {name.sweep}.")
        if runs:
            _show_runs(reader, name.sweep)
        elif name.position is not None:
            _show_run(reader, name.sweep, name.position, attempt, full=full)
        else:
            _show_sweep(reader, typed)


def _show_sweep(reader: Reader, typed: str) -> None:
    from orchestrator.cli.naming import find_sweep_and_variant
    from orchestrator.cli.streams import guard_printing
    from orchestrator.kinds import kind_of, load_attribute
    from orchestrator.world import real_world

    sweep, variant = find_sweep_and_variant(reader, typed)
    kind = kind_of(sweep)
    report = kind.build_report(reader, sweep, variant)
    if COMMON.json:
        print_data(load_attribute(kind.encoder)(report))
        return
    with guard_printing():
        load_attribute(kind.printer)(report, sys.stdout, color=COMMON.color)
    print_lines(load_attribute(kind.proposer)(report), real_world().environment)


def _show_runs(reader: Reader, name: str) -> None:
    from orchestrator.reports import listing, runs_jsonl
    from orchestrator.text import make_printable

    sweep = reader.find_sweep(name)
    if not COMMON.json:
        for line in listing.listing_lines(reader, sweep):
            print_data(make_printable(line, sys.stdout.encoding))
        return
    cells = {cell.id: cell for cell in reader.list_cells(sweep.id)}
    for run in reader.iterate_runs(sweep.id):
        if run.outcome is not None:
            print_data(runs_jsonl.run_line(sweep, run, cells[run.cell_id]))


def _show_run(reader: Reader, name: str, position: str, attempt: int | None, *, full: bool) -> None:

    from orchestrator.reports import transcript
    from orchestrator.text import make_printable
    from store.errors import UsageError

    if not (position.isascii() and position.isdigit()):
        raise UsageError(f"{position!r} is not a position", "Write a run as SWEEP/POSITION, such as last/3.")
    sweep = reader.find_sweep(name)
    run = reader.find_run(sweep.id, int(position[:20]))
    cell = next(cell for cell in reader.list_cells(sweep.id) if cell.id == run.cell_id)
    if COMMON.json:
        print_json(transcript.transcript_to_json(reader, sweep, run, cell, attempt))
        return
    for line in transcript.transcript_lines(reader, sweep, run, cell, number=attempt, full=full):
        print_data(make_printable(line, sys.stdout.encoding))
