"""Finishing a lab's sweep: the part of `resume` that is a lab's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from orchestrator.cli.lab import sweeping as lab_sweeping
from orchestrator.lab.catalog import place_of
from orchestrator.lab.formats.lab_yaml import read_lab
from orchestrator.lab.selection import Selection, restore_selection
from orchestrator.lab.settings import LabSettings

if TYPE_CHECKING:
    from orchestrator.cli.resume_request import ResumeRequest
    from orchestrator.lab.model import Lab
    from store.events import Json

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
    settings, raised = request.apply_to(LabSettings.from_json(row.conditions["settings"]))
    about = row.conditions["lab"]
    lab = read_lab(place_of(Path(row.conditions["suite"]["root"]), Path(about["config"])))
    verb = row.command.removeprefix("lab ")
    selection = restore_selection(lab, about["chosen"])
    open_sweep = _open_offline if verb == "offline" else _open_asking
    sweep = open_sweep(
        verb, lab, selection, settings, request, chosen={name: about[name] for name in ("runs", "chosen")}
    )
    return sweep.resume_sweep(row, raised=raised)


def _open_offline(
    verb: str,
    lab: Lab,
    selection: Selection,
    settings: LabSettings,
    request: ResumeRequest,
    *,
    chosen: Mapping[str, Json],
) -> lab_sweeping.LabSweep:
    from functools import partial

    import anyio

    from orchestrator.lab.recordings.offline import plan_playback
    from orchestrator.lab.running import list_player

    play = anyio.run(partial(plan_playback, lab, selection))
    return lab_sweeping.lab_sweep(
        verb,
        lab,
        play.cells,
        settings,
        request.world,
        providers=list_player(play.player),
        chosen=chosen,
        errors=request.errors,
        cancelled=request.cancelled,
    )


def _open_asking(
    verb: str,
    lab: Lab,
    selection: Selection,
    settings: LabSettings,
    request: ResumeRequest,
    *,
    chosen: Mapping[str, Json],
) -> lab_sweeping.LabSweep:
    from orchestrator.cli.lab import asking as lab_asking

    cells = lab_asking.cells_of(verb, lab, selection)
    return lab_asking.asking_sweep(
        verb,
        lab,
        cells,
        settings,
        request.world,
        chosen=chosen,
        errors=request.errors,
        cancelled=request.cancelled,
    )
