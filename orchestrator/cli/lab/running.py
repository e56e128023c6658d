"""Carry out a request of `lab live` or `lab record`: read the lab, plan the cells, make the settings, run the sweep."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

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
    """Carry out *request* and return the exit code.

    Raises:
        EvalctlError: the lab has mistakes, nothing is selected, or a backend cannot be opened.
    """
    lab = lab_options.open_lab(request.lab_dir, request.config, programs=True)
    if request.verb == "live" and lab.bundled and request.lab_dir is None:
        raise UsageError(
            f"there is no {PROJECT_LAB} in this directory, and the bundled lab runs live only if you name it",
            f"Go to your project's directory, or pass --lab-dir {lab.root}.",
        )
    chosen = lab_options.select_lab_cases(lab, request.capability, request.fixtures, request.targets)
    cells = lab_asking.plan_cells(request.verb, lab, chosen)
    settings = make_settings(request, lab, cells)
    sweep = lab_asking.open_live_sweep(
        request.verb, lab, cells, settings, real_world(), stored_selection=lab_options.selection_to_json(chosen)
    )
    _confirm_calls(lab, cells, settings, yes=request.yes)
    return sweep.start_sweep()


def make_settings(request: LabRequest, lab: Lab, cells: Sequence[Cell]) -> LabSettings:
    """Make the settings of the sweep over *cells*.

    Raises:
        UsageError: the lab has no budget, or no cell can run.
    """
    caps = options.drop_unset(calls=request.limits.max_calls, nusd=options.to_nano_usd(request.limits.max_cost_usd))
    budget = attrs.evolve(spending.get_budget(lab), **caps)
    _refuse_empty_plan(request.verb, lab, cells)
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


def _refuse_empty_plan(verb: Literal["live", "record"], lab: Lab, cells: Sequence[Cell]) -> None:
    """Refuse a sweep that would call no backend.

    Raises:
        UsageError: the lab has no targets, or none of *cells* can run against a backend.
    """
    if not lab.targets:
        raise UsageError(
            f"{lab.root / 'lab.yaml'}: no targets, so there is no backend to call",
            "Add one: targets: { jev: { backend: typesafe, model: jev-latest } }.",
        )
    if not cells:
        raise UsageError("--target: `replay` is no backend", f"Name one of: {', '.join(lab.targets)}.")
    if all(cell.skip is not None for cell in cells):
        wanted, other = ("live", "offline") if verb == "live" else ("offline, which `record` is for", "live")
        raise UsageError(f"none of the selected fixtures can run {wanted}: each sets `modes: [{other}]`")


def _confirm_calls(lab: Lab, cells: Sequence[Cell], settings: LabSettings, *, yes: bool) -> None:
    """Print the largest number of calls, and ask for a confirmation unless *yes*.

    Raises:
        UsageError: stdin is no terminal.
        typer.Exit: the answer is no.
    """
    from orchestrator.text import format_count

    for line in spending.describe_spending(lab, cells, repeat=settings.k, caps=settings.caps):
        print_notice(line)
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "calling backends spends money and needs a confirmation, but stdin is no terminal",
            "Pass --yes to confirm.",
        )
    calls, cap = spending.count_calls(cells, settings.k), settings.caps.calls
    amount = (
        format_count(cap, "call") if cap is not None and cap <= calls else f"{format_count(calls, 'call')}, and retries"
    )
    if not ask_confirmation(f"Make up to {amount}?"):
        raise typer.Exit(Exit.FAILED)
