"""The verb `lab live`: run fixtures against the real backends, within a budget."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator.cli import options
from orchestrator.cli.lab import options as lab_options

Repeat = Annotated[
    int | None,
    typer.Option(
        "--repeat",
        min=1,
        max=1000,
        metavar="N",
        help="Runs of each fixture and target. [default: `repeat` of lab.yaml]",
        rich_help_panel=options.RUN_PANEL,
    ),
]


def live(  # noqa: PLR0917 - typer takes options by position
    capability: lab_options.Capability = None,
    fixture: lab_options.Fixtures = None,
    target: lab_options.Targets = None,
    lab_dir: lab_options.AskedLabDir = None,
    config: lab_options.DaemonConfig = None,
    repeat: Repeat = None,
    seed: options.Seed = 0,
    concurrency: options.Concurrency = None,
    max_calls: lab_options.MaxCalls = None,
    max_cost_usd: lab_options.MaxCostUsd = None,
    max_wall: options.MaxWall = None,
    rpm: options.Rpm = None,
    tpm: options.Tpm = None,
    max_wait: options.MaxWait = None,
    max_stall: options.MaxStall = None,
    yes: lab_options.Yes = False,
    out: lab_options.Out = None,
) -> None:
    """Run fixtures x targets x repetitions against the real backends, and measure.

    Needs a budget in lab.yaml. Prints the largest number of calls, and asks for confirmation before the first. Results
    are stored as they come: `evalctl resume` finishes a sweep that was stopped or killed, and takes a higher budget.
    """
    from orchestrator.cli.lab.request import LabRequest
    from orchestrator.cli.lab.running import run_request
    from orchestrator.cli.limits import LimitFlags

    request = LabRequest(
        verb="live",
        capability=capability,
        fixtures=fixture,
        targets=target,
        lab_dir=lab_dir,
        config=config,
        repeat=repeat,
        seed=seed,
        limits=LimitFlags(
            concurrency=concurrency,
            max_calls=max_calls,
            max_cost_usd=max_cost_usd,
            max_wall=max_wall,
            rpm=rpm,
            tpm=tpm,
            max_wait=max_wait,
            max_stall=max_stall,
        ),
        yes=yes,
        out=out,
    )
    raise typer.Exit(run_request(request))
