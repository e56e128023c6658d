"""The verb `record`: one run of each task, and a cassette of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.cli import options
from orchestrator.cli.common import Exit, say
from orchestrator.cli.suite import run as run_verb
from orchestrator.cli.suite.options_of import with_the_options_of

Bundled = Annotated[
    bool,
    typer.Option(
        "--bundled",
        help="Record the committed cassettes of the bundled suites again: scripted provider, empty configuration.",
    ),
]
Out = Annotated[
    str | None,
    typer.Option("--out", metavar="DIR", help="With --bundled: write DIR/SUITE/TASK.jsonl and not into the suites."),
]
NOT_TAKEN = ("k", "mode", "replay_of", "out", "print_config")
"""Options of `run` that make no sense of one live run per task."""


def record(context: typer.Context, **flags: Any) -> None:
    """Run each task of SUITE once, live, and write its cassette.

    A cassette holds what the task asked the provider and what that answered; `run --mode replay` and `ci` play it. One
    that would hold a secret is refused by the name of the field, and then nothing is written.
    """
    bundled, out = flags.pop("bundled"), flags.pop("out")
    if bundled:
        _refuse_others(context)
        raise typer.Exit(_bundled(options.names(flags["tasks"]), out))
    if out is not None:
        raise typer.BadParameter("only with --bundled; name the place with --cassette-dir", param_hint="--out")
    context.meta[run_verb.RECORD] = True
    run_verb.run(context, **flags, k=1)


def _refuse_others(context: typer.Context) -> None:
    """With --bundled everything else is settled: the same bytes come out wherever it is called."""
    given = [
        name
        for name in context.params
        if name not in ("bundled", "tasks", "out")
        and (source := context.get_parameter_source(name)) is not None
        and source.name == "COMMANDLINE"
    ]
    if given:
        shown = ", ".join("SUITE" if name == "suite" else f"--{name.replace('_', '-')}" for name in given)
        raise typer.BadParameter(f"goes with --tasks and --out alone; leave out {shown}", param_hint="--bundled")


def _bundled(tasks: tuple[str, ...], out: str | None) -> int:
    from orchestrator.suite.recordings.rehearsal import record_bundled
    from orchestrator.world import conceal, real_world

    conceal()
    whole = record_bundled(tasks, None if out is None else Path(out), real_world(), say)
    return Exit.DONE if whole else Exit.FAILED


with_the_options_of(run_verb.run, record, own={"bundled": (Bundled, False), "out": (Out, None)}, without=NOT_TAKEN)
