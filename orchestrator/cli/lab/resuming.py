"""Finish a stored sweep of a lab, for the verb `resume`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from orchestrator.cli.lab import sweeping as lab_sweeping
from orchestrator.lab.catalog import place_of
from orchestrator.lab.formats.lab_yaml import read_lab
from orchestrator.lab.kind import LabKind
from orchestrator.lab.selection import Selection, restore_selection
from orchestrator.lab.settings import LabSettings

if TYPE_CHECKING:
    from orchestrator.cli.resume_request import ResumeRequest
    from orchestrator.lab.model import Lab
    from store.events import Json

REFUSED_FLAGS = {"base_url": "--base-url", "api_key_env": "--api-key-env", "keep": "--keep"}
"""By field, flags that make no sense for a lab: its configuration names the backends, and runs have no workspace."""


def resume_sweep(request: ResumeRequest) -> int:
    """Finish a sweep of a lab; return the exit code of the command that started it.

    Raises:
        typer.BadParameter: a flag does not apply to labs.
        UsageError: the lab has changed, or can no longer be read.
    """
    if refused := [flag for field, flag in REFUSED_FLAGS.items() if field in request.changes]:
        raise typer.BadParameter(
            "does not apply to a sweep of a lab: the backends stand in its config.yaml", param_hint=refused[0]
        )
    row = request.sweep
    settings, raised = request.apply_to(LabSettings.from_json(row.conditions["settings"]))
    about = row.conditions["lab"]
    lab = read_lab(place_of(Path(row.conditions["suite"]["root"]), Path(about["config"])))
    verb = row.command.removeprefix("lab ")
    selection = restore_selection(lab, about["chosen"])
    open_sweep = _open_offline if verb == "offline" else _open_live
    sweep = open_sweep(
        verb, lab, selection, settings, request, stored_selection={name: about[name] for name in ("runs", "chosen")}
    )
    return sweep.resume_sweep(row, raised=raised)


def _open_offline(
    verb: str,
    lab: Lab,
    selection: Selection,
    settings: LabSettings,
    request: ResumeRequest,
    *,
    stored_selection: Mapping[str, Json],
) -> lab_sweeping.LabSweep:
    from functools import partial

    import anyio

    from orchestrator.lab.recordings.offline import plan_playback
    from orchestrator.lab.running import list_player

    playback = anyio.run(partial(plan_playback, lab, selection))
    kind = LabKind(
        lab=lab,
        cells=tuple(playback.cells),
        settings=settings,
        providers=list_player(playback.player),
        stored_selection=stored_selection,
    )
    return lab_sweeping.set_up_sweep(
        verb, kind, request.world, rerun_errors=request.rerun_errors, rerun_cancelled=request.rerun_cancelled
    )


def _open_live(
    verb: str,
    lab: Lab,
    selection: Selection,
    settings: LabSettings,
    request: ResumeRequest,
    *,
    stored_selection: Mapping[str, Json],
) -> lab_sweeping.LabSweep:
    from orchestrator.cli.lab import asking as lab_asking

    cells = lab_asking.plan_cells(verb, lab, selection)
    return lab_asking.open_live_sweep(
        verb,
        lab,
        cells,
        settings,
        request.world,
        stored_selection=stored_selection,
        rerun_errors=request.rerun_errors,
        rerun_cancelled=request.rerun_cancelled,
    )
