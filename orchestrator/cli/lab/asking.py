"""A lab's sweep that asks backends: their providers are opened here, with the credentials of this environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from orchestrator.cli.lab import sweeping as lab_sweeping
from orchestrator.cli.sweep_setup import read_seconds
from orchestrator.lab.cells import list_live_cells
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

IDLE = "EVALCTL_IDLE_SECONDS"
"""How long a begun answer may pause."""


def cells_of(verb: str, lab: Lab, chosen: Selection) -> tuple[Cell, ...]:
    """The plan's cells; what is recorded is for offline."""
    return tuple(list_live_cells(lab.daemon.capabilities, chosen, "offline" if verb == "record" else "live"))


def asking_sweep(
    verb: str,
    lab: Lab,
    cells: Sequence[Cell],
    settings: LabSettings,
    world: World,
    *,
    chosen: Mapping[str, Json],
    errors: bool = False,
    cancelled: bool = False,
) -> lab_sweeping.LabSweep:
    """A sweep over *cells* that asks whom they name; `record` takes down what they answer.

    Raises:
        UsageError: a backend cannot be opened, such as for want of its key; or nothing can be recorded there.
    """
    hide_environment()
    capabilities = [cell.capability for cell in cells]
    used = list_credentials(lab.daemon, capabilities, world.environment)
    redactor = Redactor([*used, *find_credentials(world.environment)])
    recording = _make_recording(lab, cells, redactor) if verb == "record" else None
    # without a word of anybody's, nodes say how long they wait
    idle_ms = round(read_seconds(world, IDLE, 1.0) * 1000) if IDLE in world.environment else None

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

    asked = open_priced_providers(cells, settings.prices, open_all)
    if recording is not None:
        asked = recording.record_providers(asked)
    return lab_sweeping.lab_sweep(
        verb,
        lab,
        cells,
        settings,
        world,
        providers=asked,
        redactor=redactor,
        chosen=chosen,
        recording=recording,
        errors=errors,
        cancelled=cancelled,
    )


def _make_recording(lab: Lab, cells: Iterable[Cell], redactor: Redactor) -> Recording:
    """What takes down the answers.

    Raises:
        UsageError: nothing can be written.
    """
    import anyio

    fixtures = [cell.case for cell in cells if cell.skip is None]
    unplayed = anyio.run(find_self_answering_cases, lab, fixtures)
    return Recording(lab=lab, redactor=redactor, unplayed=unplayed)
