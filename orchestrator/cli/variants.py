"""The verb `variants`: configurations of one suite side by side, with a comparison."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from orchestrator.cli import run as run_verb

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


def _with_the_options_of_run() -> inspect.Signature:
    """Those of `run`, so that whatever it learns holds here, too, and after them the file."""
    hints = get_type_hints(run_verb.run, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    taken = [
        parameter.replace(annotation=hints[name], kind=parameter.kind if name == "context" else keyword)
        for name, parameter in inspect.signature(run_verb.run).parameters.items()
        if name not in NOT_TAKEN
    ]
    file = inspect.Parameter("variants", keyword, default=None, annotation=File)
    first = next(place for place, parameter in enumerate(taken) if parameter.name == "tasks")
    return inspect.Signature([*taken[:first], file, *taken[first:]])


# what typer reads the options from
variants.__signature__ = _with_the_options_of_run()  # type: ignore[attr-defined]  # a function takes any attribute
variants.__annotations__ = {name: one.annotation for name, one in variants.__signature__.parameters.items()}  # type: ignore[attr-defined]  # the same
