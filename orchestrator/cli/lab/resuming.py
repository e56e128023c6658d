"""Finishing a lab's sweep: the part of `resume` that is a lab's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import typer

from orchestrator.cli.lab import sweeping as lab_sweeping
from orchestrator.lab.catalog import place_of
from orchestrator.lab.formats.lab_yaml import read_lab
from orchestrator.lab.selection import Selection, stored_selection
from orchestrator.suite.settings import Settings

if TYPE_CHECKING:
    from orchestrator.cli.resume_request import ResumeRequest
    from orchestrator.lab.model import Lab
    from orchestrator.world import World


REFUSED = {"base_url": "--base-url", "api_key_env": "--api-key-env", "keep": "--keep"}
"""By field, flags that make no sense for a lab: its own configuration names the backends, and its runs keep nothing."""


def resume_sweep(request: ResumeRequest) -> int:
    """Finish a lab's sweep; the exit code of its own command.

    Raises:
        BadParameter: a flag is not for labs.
        UsageError: the lab has changed, or cannot be read any more.
    """
    if refused := [flag for field, flag in REFUSED.items() if field in request.changes]:
        raise typer.BadParameter("is not for a lab's sweep: its config.yaml says who is asked", param_hint=refused[0])
    row = request.sweep
    settings, raised = request.apply_to(Settings.from_json(row.conditions["settings"]))
    found = row.conditions["lab"]
    lab = read_lab(place_of(Path(row.conditions["suite"]["root"]), Path(found["config"])))
    sweep = _sweep(
        row.command.removeprefix("lab "),
        lab,
        stored_selection(lab, found["chosen"]),
        settings,
        world=request.world,
        found=found,
    )
    sweep = attrs.evolve(sweep, part=attrs.evolve(sweep.part, errors=request.errors, cancelled=request.cancelled))
    return sweep.resume(row, raised=raised)


def _sweep(
    verb: str, lab: Lab, selection: Selection, settings: Settings, *, world: World, found: Mapping[str, Any]
) -> lab_sweeping.LabSweep:
    chosen = {name: found[name] for name in ("runs", "chosen")}
    if verb == "offline":
        from functools import partial

        import anyio

        from orchestrator.lab.recordings.offline import programme
        from orchestrator.lab.running import played_by

        play = anyio.run(partial(programme, lab, selection))
        return lab_sweeping.lab_sweep(
            verb, lab, play.cells, settings, world, asked=played_by(play.player), chosen=chosen
        )
    from orchestrator.cli.lab import asking as lab_asking

    cells = lab_asking.cells_of(verb, lab, selection)
    return lab_asking.asking_sweep(verb, lab, cells, settings, world, chosen=chosen)
