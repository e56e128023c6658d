"""Options that the verbs of `lab` share, and what they come to: a lab, and the part of it that is meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli import options

if TYPE_CHECKING:
    from orchestrator.lab.model import Lab
    from orchestrator.lab.selection import Selection
    from store.events import Json

Capability = Annotated[
    str | None, typer.Argument(metavar="[CAPABILITY]", help="Only the fixtures of this capability.", show_default=False)
]
Fixtures = Annotated[
    list[str] | None,
    typer.Option(
        "--fixture",
        metavar="ID",
        help="Only these fixtures: several times, or ID,ID.",
        show_default=False,
        rich_help_panel=options.WHAT,
    ),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        metavar="ID",
        help="Only these targets: several times, or ID,ID.",
        show_default=False,
        rich_help_panel=options.WHAT,
    ),
]
LabDir = Annotated[
    Path | None,
    typer.Option(
        "--lab-dir",
        metavar="DIR",
        help="The lab. [default: ./config/lab, else the bundled one]",
        rich_help_panel=options.WHAT,
    ),
]
AskedLabDir = Annotated[
    Path | None,
    typer.Option("--lab-dir", metavar="DIR", help="The lab. [default: ./config/lab]", rich_help_panel=options.WHAT),
]
"""Of verbs that ask backends: the bundled lab has to be named."""
DaemonConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The daemon configuration. [default: the lab's config.yaml]",
        rich_help_panel=options.WHAT,
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Write manifest, results and report here. [default: .local/runs/SWEEP]",
        rich_help_panel=options.OUTPUT,
    ),
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Ask backends without a confirmation.", rich_help_panel=options.PERMISSIONS)
]
MaxCalls = Annotated[
    int | None,
    typer.Option(
        "--max-calls",
        min=1,
        metavar="N",
        help="Calls the sweep may make, in place of the budget's.",
        rich_help_panel=options.LIMITS,
    ),
]
MaxCostUsd = Annotated[
    Decimal | None,
    typer.Option(
        "--max-cost-usd",
        parser=options.parse_usd,
        metavar="USD",
        help="US dollars it may cost, in place of the budget's.",
        rich_help_panel=options.LIMITS,
    ),
]

RUNS = Path(".local") / "runs"
"""Below the working directory: where a sweep's run directory is, unless another place is named."""


def split_names(given: Iterable[str] | None, flag: str) -> tuple[str, ...]:
    """The names of a flag that may stand several times and hold several names.

    Raises:
        typer.BadParameter: it is given and names nothing, such as an unset variable of a shell.
    """
    texts = tuple(given or ())
    found = tuple(dict.fromkeys(name for text in texts for part in text.split(",") if (name := part.strip())))
    if texts and not found:
        raise typer.BadParameter(f"expected ids, got {texts[0]!r}", param_hint=flag)
    return found


def open_lab(lab_dir: Path | None, config: Path | None, *, programs: bool = False) -> Lab:
    """The lab that is meant, read and checked; with *programs* also whether there are those that it starts.

    Raises:
        UsageError: there is none, or something in it is wrong; all findings at once.
    """
    from orchestrator.lab.catalog import find_lab
    from orchestrator.lab.formats.lab_yaml import read_lab
    from orchestrator.world import real_world

    place = find_lab(lab_dir, config)
    return read_lab(place, path=real_world().environment.get("PATH", "") if programs else None)


def select_lab_cases(
    lab: Lab, capability: str | None, fixtures: Sequence[str] | None, targets: Sequence[str] | None
) -> Selection:
    """The part of the lab that these options name.

    Raises:
        UsageError: something in them is not there, or nothing is left.
    """
    from orchestrator.lab.selection import select_cases

    return select_cases(
        lab,
        capability=capability,
        cases=split_names(fixtures, "--fixture"),
        targets=split_names(targets, "--target"),
    )


def selection_to_json(selection: Selection) -> dict[str, Json]:
    """What `resume` has to know of what was chosen, and where reports go unless `--out` says otherwise."""
    return {
        "runs": str(Path.cwd() / RUNS),
        "chosen": selection.to_json(),
    }
