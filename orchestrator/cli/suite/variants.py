"""The verb `variants`: configurations of one suite side by side, with a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.cli.suite import run as run_verb
from orchestrator.cli.suite.options_of import with_the_options_of

File = Annotated[
    Path | None,
    typer.Option("--variants", metavar="FILE", help="What is compared: a compare.json.", show_default=False),
]
NOT_TAKEN = frozenset({"replay_of"})
"""What `run` offers for replays alone."""


def variants(context: typer.Context, **flags: Any) -> None:
    """Run SUITE under two or more variants of the configuration and compare them.

    FILE names the suite and the variants, each with the measured keys it sets otherwise; the first is the baseline.
    Their runs are interleaved over the same tasks, repetitions and seed. Each variant gets a report directory of its
    own; comparison.json and comparison.md stand beside them. A sweep that was stopped or killed goes on with
    `evalctl resume`, to the same comparison.
    """
    file: Path | None = flags.pop("variants")
    if flags["mode"] == "replay":
        raise typer.BadParameter(
            "a replay repeats recorded answers, which no variant changes; variants are compared live",
            param_hint="--mode",
        )
    if file is None and not flags["print_config"]:
        raise typer.BadParameter("it is missing", param_hint="--variants")
    context.meta[run_verb.VARIANTS] = file
    run_verb.run(context, **flags)


with_the_options_of(run_verb.run, variants, own={"variants": (File, None)}, without=NOT_TAKEN, before="tasks")
