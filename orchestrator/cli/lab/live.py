"""The verb `lab live`: asks the backends themselves, within a budget. `lab record` does the same once, and keeps it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli import options
from orchestrator.cli.common import Exit, confirmed, say
from orchestrator.cli.lab import options as lab_options
from orchestrator.cli.suite.run import LARGEST_SEED

if TYPE_CHECKING:
    from orchestrator.lab.cells import Cell
    from orchestrator.lab.model import Lab
    from orchestrator.suite.settings import Settings

RECORD = f"{__name__}.record"
"""In a context's `meta`: whether what is answered is recorded."""

Repeat = Annotated[
    int | None,
    typer.Option(
        "--repeat", min=1, max=1000, metavar="N", help="Runs of each fixture and target. [default: lab.yaml's]"
    ),
]
Seed = Annotated[
    int,
    typer.Option("--seed", min=-LARGEST_SEED, max=LARGEST_SEED, metavar="N", help="Seed of the run order."),
]
MaxCalls = Annotated[
    int | None,
    typer.Option("--max-calls", min=1, metavar="N", help="Calls the sweep may make, in place of the budget's."),
]
MaxCostUsd = Annotated[
    Decimal | None,
    typer.Option(
        "--max-cost-usd", parser=options.usd, metavar="USD", help="US dollars it may cost, in place of the budget's."
    ),
]


def live(  # noqa: PLR0917 - typer takes options by position
    context: typer.Context,
    capability: lab_options.Capability = None,
    fixture: lab_options.Fixtures = None,
    target: lab_options.Targets = None,
    lab_dir: lab_options.AskedLabDir = None,
    config: lab_options.DaemonConfig = None,
    repeat: Repeat = None,
    seed: Seed = 0,
    concurrency: options.Concurrency = None,
    max_calls: MaxCalls = None,
    max_cost_usd: MaxCostUsd = None,
    max_wall: options.MaxWall = None,
    rpm: options.Rpm = None,
    tpm: options.Tpm = None,
    max_wait: options.MaxWait = None,
    max_stall: options.MaxStall = None,
    out: lab_options.Out = None,
    yes: lab_options.Yes = False,
) -> None:
    """Run fixtures x targets x repetitions against the real backends, and measure.

    Needs a budget in lab.yaml, says what will be asked at most, and asks before the first call. Results are stored as
    they come; a sweep that was stopped or killed goes on with `evalctl resume`, a spent budget with a higher one there.
    """
    import attrs

    from orchestrator.cli.lab import asking as lab_asking
    from orchestrator.lab import spending
    from orchestrator.lab.catalog import HERE
    from orchestrator.lab.running import settings_of
    from orchestrator.world import real_world
    from store.errors import UsageError

    verb = "record" if context.meta.get(RECORD) else "live"
    lab = lab_options.opened(lab_dir, config, programs=True)
    if verb == "live" and lab.bundled and lab_dir is None:
        raise UsageError(
            f"there is no {HERE} here, and the bundled lab is asked live only where it is named",
            f"Go to your project's directory, or say --lab-dir {lab.root}.",
        )
    chosen = lab_options.chosen(lab, capability, fixture, target)
    budget = attrs.evolve(spending.budget_of(lab), **options.given(calls=max_calls, nusd=options.nusd(max_cost_usd)))
    cells = lab_asking.cells_of(verb, lab, chosen)
    _refuse_nothing(lab, cells)
    settings = settings_of(
        lab,
        cells,
        mode=verb,
        caps=budget,
        k=repeat or lab.repeat,
        seed=seed,
        out=options.directory(out),
        **options.given(
            concurrency=concurrency, max_wall_s=max_wall, rpm=rpm, tpm=tpm, max_wait_s=max_wait, max_stall_s=max_stall
        ),
    )
    sweep = lab_asking.asking_sweep(verb, lab, cells, settings, real_world(), chosen=lab_options.stored(chosen))
    _confirm(lab, cells, settings, yes=yes)
    raise typer.Exit(sweep.start())


def _refuse_nothing(lab: Lab, cells: Sequence[Cell]) -> None:
    from store.errors import UsageError

    if not lab.targets:
        raise UsageError(
            f"{lab.root / 'lab.yaml'}: it has no targets, so there is nobody to ask",
            "Give it one: targets: { jev: { backend: typesafe, model: jev-latest } }.",
        )
    if not cells:
        raise UsageError(
            "--target: only backends can be asked, and replay is none", f"There are: {', '.join(lab.targets)}."
        )
    if all(cell.skip is not None for cell in cells):
        raise UsageError("none of the chosen fixtures is run so: their modes say otherwise")


def _confirm(lab: Lab, cells: Sequence[Cell], settings: Settings, *, yes: bool) -> None:
    """Say what will be asked at most, and go on only with a yes."""
    from orchestrator.lab import spending
    from orchestrator.text import counted
    from store.errors import UsageError

    for line in spending.lines(lab, cells, repeat=settings.k, caps=settings.caps):
        say(line)
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "asking backends spends money and needs a confirmation, and there is no terminal to ask at",
            "Pass --yes if that is what you want.",
        )
    calls, cap = spending.calls_of(cells, settings.k), settings.caps.calls
    most = counted(cap, "call") if cap is not None and cap <= calls else f"{counted(calls, 'call')}, and retries"
    if not confirmed(f"Make up to {most}?"):
        raise typer.Exit(Exit.FAILED)
