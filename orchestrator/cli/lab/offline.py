"""The verb `lab offline`: test flows, rules and schemas against recorded answers."""

from __future__ import annotations

import typer

from orchestrator.cli import options
from orchestrator.cli.lab import options as lab_options


def offline(  # noqa: PLR0917 - typer takes options by position
    capability: lab_options.Capability = None,
    fixture: lab_options.Fixtures = None,
    target: lab_options.Targets = None,
    lab_dir: lab_options.LabDir = None,
    config: lab_options.DaemonConfig = None,
    concurrency: options.Concurrency = None,
    out: lab_options.Out = None,
) -> None:
    """Run the fixtures from their replay or from cassettes.

    Needs no network, no process and no key, and gives the same results every time. The target `replay` stands for
    fixtures that bring all their answers themselves.
    """
    from functools import partial

    import anyio

    from orchestrator.cli.lab import sweeping as lab_sweeping
    from orchestrator.lab.kind import LabKind
    from orchestrator.lab.recordings.offline import plan_playback
    from orchestrator.lab.running import build_settings, list_player
    from orchestrator.world import real_world
    from store.rows import Caps

    lab = lab_options.open_lab(lab_dir, config)
    chosen = lab_options.select_lab_cases(lab, capability, fixture, target)
    playback = anyio.run(partial(plan_playback, lab, chosen))
    settings = build_settings(
        lab,
        playback.cells,
        mode="offline",
        caps=Caps(),
        out=options.resolve_directory(out),
        **options.drop_unset(concurrency=concurrency),
    )
    kind = LabKind(
        lab=lab,
        cells=tuple(playback.cells),
        settings=settings,
        providers=list_player(playback.player),
        stored_selection=lab_options.selection_to_json(chosen),
    )
    raise typer.Exit(lab_sweeping.set_up_sweep("offline", kind, real_world()).start_sweep())
