"""Options that the verbs of `lab` share, and the lab and the selection that they name."""

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
    str | None,
    typer.Argument(metavar="[CAPABILITY]", help="Run only the fixtures of this capability.", show_default=False),
]
Fixtures = Annotated[
    list[str] | None,
    typer.Option(
        "--fixture",
        metavar="ID",
        help="Run only these fixtures (repeat the flag, or write ID,ID).",
        show_default=False,
        rich_help_panel=options.RUN_PANEL,
    ),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        metavar="ID",
        help="Run only these targets (repeat the flag, or write ID,ID).",
        show_default=False,
        rich_help_panel=options.RUN_PANEL,
    ),
]
LabDir = Annotated[
    Path | None,
    typer.Option(
        "--lab-dir",
        metavar="DIR",
        help="The lab. [default: ./config/lab, else the bundled one]",
        rich_help_panel=options.RUN_PANEL,
    ),
]
AskedLabDir = Annotated[
    Path | None,
    typer.Option(
        "--lab-dir", metavar="DIR", help="The lab. [default: ./config/lab]", rich_help_panel=options.RUN_PANEL
    ),
]
"""For verbs that call backends: they run the bundled lab only if it is named."""
DaemonConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The daemon configuration. [default: the lab's config.yaml]",
        rich_help_panel=options.RUN_PANEL,
    ),
]
Out = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Write manifest, results and report to DIR. [default: .local/runs/SWEEP]",
        rich_help_panel=options.OUTPUT_PANEL,
    ),
]
Yes = Annotated[
    bool,
    typer.Option(
        "--yes", help="Call backends without asking for confirmation.", rich_help_panel=options.PERMISSIONS_PANEL
    ),
]
MaxCalls = Annotated[
    int | None,
    typer.Option(
        "--max-calls",
        min=1,
        metavar="N",
        help="Limit the calls of the sweep; replaces the budget of lab.yaml.",
        rich_help_panel=options.LIMITS_PANEL,
    ),
]
MaxCostUsd = Annotated[
    Decimal | None,
    typer.Option(
        "--max-cost-usd",
        parser=options.parse_usd,
        metavar="USD",
        help="Limit the cost of the sweep in US dollars; replaces the budget of lab.yaml.",
        rich_help_panel=options.LIMITS_PANEL,
    ),
]

RUN_DIRECTORIES = Path(".local") / "runs"
"""Below the working directory: the parent of run directories, unless `--out` names one."""


def split_names(given: Iterable[str] | None, flag: str) -> tuple[str, ...]:
    """Split the names of a flag that may be repeated and may hold several names.

    Raises:
        typer.BadParameter: the flag is given but empty, for example from an unset shell variable.
    """
    texts = tuple(given or ())
    names = tuple(dict.fromkeys(name for text in texts for item in text.split(",") if (name := item.strip())))
    if texts and not names:
        raise typer.BadParameter(f"expected ids, got {texts[0]!r}", param_hint=flag)
    return names


def open_lab(lab_dir: Path | None, config: Path | None, *, programs: bool = False) -> Lab:
    """Find, read and check the lab; with *programs* also check that the programs that it starts exist.

    Raises:
        UsageError: there is no lab, or it has mistakes; the message lists all of them.
    """
    from orchestrator.lab.catalog import find_lab
    from orchestrator.lab.formats.lab_yaml import read_lab
    from orchestrator.world import real_world

    place = find_lab(lab_dir, config)
    return read_lab(place, path=real_world().environment.get("PATH", "") if programs else None)


def select_lab_cases(
    lab: Lab, capability: str | None, fixtures: Sequence[str] | None, targets: Sequence[str] | None
) -> Selection:
    """Select the capabilities, fixtures and targets that these options name.

    Raises:
        UsageError: a name is unknown, or nothing is selected.
    """
    from orchestrator.lab.selection import select_cases

    return select_cases(
        lab,
        capability=capability,
        cases=split_names(fixtures, "--fixture"),
        targets=split_names(targets, "--target"),
    )


def selection_to_json(selection: Selection) -> dict[str, Json]:
    """Encode the selection and the parent of run directories, as `resume` reads them back."""
    return {
        "runs": str(Path.cwd() / RUN_DIRECTORIES),
        "chosen": selection.to_json(),
    }
