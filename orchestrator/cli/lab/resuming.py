"""Finishing a lab's sweep: what `resume` does where a sweep is one of a lab."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from orchestrator.cli.lab import sweeping as lab_sweeping
from orchestrator.lab.catalog import place_of
from orchestrator.lab.formats.lab_yaml import read_lab
from orchestrator.lab.selection import Selection, stored_selection

if TYPE_CHECKING:
    from orchestrator.lab.model import Lab
    from orchestrator.suite.settings import Settings
    from orchestrator.world import World
    from store.rows import SweepRow


def resume(row: SweepRow, settings: Settings, world: World, *, raised: bool, errors: bool, cancelled: bool) -> int:
    """Finish what the sweep *row* has left; the exit code of its own command.

    Args:
        row: the stored sweep.
        settings: those that it is finished under.
        world: clocks and environment.
        raised: whether their caps or prices are new.
        errors: whether runs that ended in an error of infrastructure are run again.
        cancelled: the same for cancelled ones.

    Raises:
        UsageError: the lab is not what it was, or cannot be read any more.
    """
    found = row.conditions["lab"]
    lab = read_lab(place_of(Path(row.conditions["suite"]["root"]), Path(found["config"])))
    sweep = _sweep(
        row.command.removeprefix("lab "),
        lab,
        stored_selection(lab, found["chosen"]),
        settings,
        world=world,
        found=found,
    )
    sweep = attrs.evolve(sweep, part=attrs.evolve(sweep.part, errors=errors, cancelled=cancelled))
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
