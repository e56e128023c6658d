"""Sweeps of a lab that call backends: open the providers with the credentials of this environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from orchestrator.cli.lab import sweeping as lab_sweeping
from orchestrator.cli.sweep_setup import read_seconds
from orchestrator.lab.cells import list_live_cells
from orchestrator.lab.kind import LabKind
from orchestrator.lab.recordings.offline import find_self_answering_cases
from orchestrator.lab.recordings.recording import Recording
from orchestrator.lab.running import list_credentials, make_key_lookup, open_priced_providers
from orchestrator.world import World, hide_environment
from providers.decisions.backends import open_providers
from store.secrets.redactor import Redactor, find_credentials

if TYPE_CHECKING:
    from orchestrator.lab.cells import Cell
    from orchestrator.lab.model import Lab
    from orchestrator.lab.selection import Selection
    from orchestrator.lab.settings import LabSettings
    from providers.base import Provider
    from providers.decisions.model import Capability
    from store.events import Json

IDLE_VARIABLE = "EVALCTL_IDLE_SECONDS"
"""Sets how long an answer that has begun may pause."""


def plan_cells(verb: str, lab: Lab, chosen: Selection) -> tuple[Cell, ...]:
    """Plan the cells of the sweep; those of `record` are the offline ones, which play cassettes."""
    return tuple(list_live_cells(lab.daemon.capabilities, chosen, "offline" if verb == "record" else "live"))


def open_live_sweep(
    verb: str,
    lab: Lab,
    cells: Sequence[Cell],
    settings: LabSettings,
    world: World,
    *,
    stored_selection: Mapping[str, Json],
    rerun_errors: bool = False,
    rerun_cancelled: bool = False,
) -> lab_sweeping.LabSweep:
    """Open the backends of *cells* and set up the sweep over them; `record` also records their answers.

    Raises:
        UsageError: a backend cannot be opened, for example because its key is missing; or cassettes cannot be written.
    """
    hide_environment()
    capabilities = [cell.capability for cell in cells]
    used = list_credentials(lab.daemon, capabilities, world.environment)
    redactor = Redactor([*used, *find_credentials(world.environment)])
    recording = _make_recording(lab, cells, redactor) if verb == "record" else None
    # without the variable, the time limits of the nodes hold
    idle_ms = round(read_seconds(world, IDLE_VARIABLE, 1.0) * 1000) if IDLE_VARIABLE in world.environment else None

    def open_all(capabilities: Iterable[Capability]) -> Mapping[str, Provider]:
        return open_providers(
            lab.daemon,
            capabilities,
            key_of=make_key_lookup(world.environment),
            base=lab.config.parent,
            idle_timeout_ms=idle_ms,
            wall=world.wall,
            keep_bodies=recording is not None,
        )

    providers = open_priced_providers(cells, settings.prices, open_all)
    if recording is not None:
        providers = recording.record_providers(providers)
    kind = LabKind(
        lab=lab, cells=tuple(cells), settings=settings, providers=providers, stored_selection=stored_selection
    )
    return lab_sweeping.set_up_sweep(
        verb,
        kind,
        world,
        redactor=redactor,
        recording=recording,
        rerun_errors=rerun_errors,
        rerun_cancelled=rerun_cancelled,
    )


def _make_recording(lab: Lab, cells: Iterable[Cell], redactor: Redactor) -> Recording:
    """Make the recorder of the answers.

    Raises:
        UsageError: cassettes cannot be written.
    """
    import anyio

    fixtures = [cell.case for cell in cells if cell.skip is None]
    unplayed = anyio.run(find_self_answering_cases, lab, fixtures)
    return Recording(lab=lab, redactor=redactor, unplayed=unplayed)
