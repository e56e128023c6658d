"""The verb `lab record`: one run of each fixture and target, and a cassette of it."""

from __future__ import annotations

from typing import Any

import typer

from orchestrator.cli.lab import live as lab_live
from orchestrator.cli.suite.options_of import with_the_options_of


def record(context: typer.Context, **flags: Any) -> None:
    """Run each fixture once against each target, and write what was answered as cassettes.

    A cassette holds the status and the body of each answer, and is what `lab offline` plays. One that would hold a
    secret is refused by the name of the field. A run that ended in an error of infrastructure leaves none. Needs a
    budget in lab.yaml, and asks before the first call.
    """
    context.meta[lab_live.RECORD] = True
    lab_live.live(context, **flags, repeat=1)


with_the_options_of(lab_live.live, record, own={}, without=("repeat", "seed"))
