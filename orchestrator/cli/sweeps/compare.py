"""The verb `compare`: compare two sides of one suite, and say whether the candidate improved or regressed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from orchestrator.cli.common import COMMON, Exit, print_data, print_error

SIDE_HELP = "A report's directory or report.json, or a sweep: SWEEP, SWEEP:VARIANT, or `last`; names may be shortened."


def compare(
    baseline: Annotated[str, typer.Argument(metavar="BASELINE", help=SIDE_HELP)],
    candidate: Annotated[
        str, typer.Argument(metavar="CANDIDATE", help="Likewise. Differences are candidate minus baseline.")
    ],
    detail: Annotated[
        bool,
        typer.Option(
            "--detail",
            help="Also print statistics that do not affect the verdict: Newcombe intervals, Fisher p with Holm, the "
            "paired difference over cases, and the repetitions needed to tell the sides apart.",
        ),
    ] = False,
) -> None:
    """Compare two reports or sweeps of the same suite, or two targets of a lab (SWEEP:TARGET).

    A task is improved or regressed if both sides have at least 5 judged runs and their 95 % Wilson intervals are
    disjoint, and inconclusive if the intervals overlap; otherwise it is low power or not comparable. Where recordings
    were played (a replay, a lab offline) it has changed or not.
    """
    from orchestrator.cli.sweep_setup import store_of
    from orchestrator.comparison import json_form, lines
    from orchestrator.comparison.build import compare_arms
    from orchestrator.comparison.model import Incompatible
    from orchestrator.comparison.sides import read_sides
    from orchestrator.kinds import kind_of, read_report_side
    from orchestrator.text import make_printable
    from orchestrator.world import real_world

    sides = read_sides(
        baseline,
        candidate,
        store_of(real_world()),
        read_report=read_report_side,
        words_of=lambda sweep: kind_of(sweep).side_words(),
    )
    try:
        comparison = compare_arms(sides.baseline, sides.candidate, gaps=sides.gaps, detail=detail)
    except Incompatible as error:
        print_error(str(error))
        raise typer.Exit(Exit.INCOMPATIBLE) from None
    if COMMON.json:
        print_data(json_form.render_json_line(comparison))
    else:
        print_data("\n".join(make_printable(line, sys.stdout.encoding) for line in lines.render_lines(comparison)))
