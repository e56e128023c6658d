"""The verb `lab record`: one run of each fixture and target, and a cassette of it."""

from __future__ import annotations

import typer

from orchestrator.cli import options
from orchestrator.cli.lab import options as lab_options


def record(  # noqa: PLR0917 - typer takes options by position
    capability: lab_options.Capability = None,
    fixture: lab_options.Fixtures = None,
    target: lab_options.Targets = None,
    lab_dir: lab_options.AskedLabDir = None,
    config: lab_options.DaemonConfig = None,
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
    """Run each fixture once against each target, and write what was answered as cassettes.

    A cassette holds the status and the body of each answer, and is what `lab offline` plays. One that would hold a
    secret is refused by the name of the field. A run that ended in an error of infrastructure leaves none. Needs a
    budget in lab.yaml, and asks before the first call.
    """
    from orchestrator.cli.lab.request import LabRequest
    from orchestrator.cli.lab.running import run_request
    from orchestrator.cli.limits import LimitFlags

    request = LabRequest(
        verb="record",
        capability=capability,
        fixtures=fixture,
        targets=target,
        lab_dir=lab_dir,
        config=config,
        repeat=1,
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
