"""The verb `lab record`: run each fixture once against each target and write its cassette."""

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
    """Run each fixture once against each target, and write the answers as cassettes.

    A cassette holds the status and the body of each answer; `lab offline` plays it. One that would hold a secret is not
    written, and the message names the field. A run that ended in an infrastructure error gets none. Needs a budget in
    lab.yaml, and asks for confirmation before the first call.
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
