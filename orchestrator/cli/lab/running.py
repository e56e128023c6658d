"""Carrying out what `lab live` or `lab record` was asked: the lab, the cells and the settings, then the sweep."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import typer

from orchestrator.cli import options
from orchestrator.cli.common import Exit, ask_confirmation, print_notice
from orchestrator.cli.lab import asking as lab_asking
from orchestrator.cli.lab import options as lab_options
from orchestrator.cli.lab.request import LabRequest
from orchestrator.lab import spending
from orchestrator.lab.catalog import PROJECT_LAB
from orchestrator.lab.running import build_settings
from orchestrator.world import real_world
from store.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.lab.cells import Cell
    from orchestrator.lab.model import Lab
    from orchestrator.lab.settings import LabSettings


def run_request(request: LabRequest) -> int:
    """Do what *request* asks; the exit code.

    Raises:
        EvalctlError: the lab is wrong, nothing is selected, or a backend cannot be opened.
    """
    lab = lab_options.open_lab(request.lab_dir, request.config, programs=True)
    if request.verb == "live" and lab.bundled and request.lab_dir is None:
        raise UsageError(
            f"there is no {PROJECT_LAB} here, and the bundled lab is asked live only where it is named",
            f"Go to your project's directory, or say --lab-dir {lab.root}.",
        )
    chosen = lab_options.select_lab_cases(lab, request.capability, request.fixtures, request.targets)
    cells = lab_asking.cells_of(request.verb, lab, chosen)
    settings = make_settings(request, lab, cells)
    sweep = lab_asking.asking_sweep(
        request.verb, lab, cells, settings, real_world(), chosen=lab_options.selection_to_json(chosen)
    )
    _confirm_calls(lab, cells, settings, yes=request.yes)
    return sweep.start_sweep()


def make_settings(request: LabRequest, lab: Lab, cells: Sequence[Cell]) -> LabSettings:
    """The settings of the sweep over *cells* that *request* asks for.

    Raises:
        UsageError: the lab has no budget, or no cell can be asked.
    """
    wanted = options.drop_unset(calls=request.limits.max_calls, nusd=options.to_nano_usd(request.limits.max_cost_usd))
    budget = attrs.evolve(spending.get_budget(lab), **wanted)
    _refuse_nothing(lab, cells)
    return build_settings(
        lab,
        cells,
        mode=request.verb,
        caps=budget,
        k=request.repeat or lab.repeat,
        seed=request.seed,
        out=options.resolve_directory(request.out),
        **request.limits.given_terms(),
    )


def _refuse_nothing(lab: Lab, cells: Sequence[Cell]) -> None:
    """Raise where no backend would be asked.

    Raises:
        UsageError: the lab has no targets, or none of *cells* can run against a backend.
    """
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


def _confirm_calls(lab: Lab, cells: Sequence[Cell], settings: LabSettings, *, yes: bool) -> None:
    """Say how many calls are made at most, and ask for a confirmation unless *yes*.

    Raises:
        UsageError: there is no terminal to ask at.
        typer.Exit: the answer is no.
    """
    from orchestrator.text import format_count

    for line in spending.describe_spending(lab, cells, repeat=settings.k, caps=settings.caps):
        print_notice(line)
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "asking backends spends money and needs a confirmation, and there is no terminal to ask at",
            "Pass --yes if that is what you want.",
        )
    calls, cap = spending.count_calls(cells, settings.k), settings.caps.calls
    most = (
        format_count(cap, "call") if cap is not None and cap <= calls else f"{format_count(calls, 'call')}, and retries"
    )
    if not ask_confirmation(f"Make up to {most}?"):
        raise typer.Exit(Exit.FAILED)
