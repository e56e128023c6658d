"""The verb `gen-stress`: write more instances of chain-walk-rules as a suite of their own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.common import COMMON, print_data, print_json, print_notice

if TYPE_CHECKING:
    from orchestrator.suite.stress.writing import Changes

MIN_INSTANCES = 5
MAX_INSTANCES = 99


def gen_stress(
    instances: Annotated[
        int,
        typer.Option(
            "--instances",
            min=MIN_INSTANCES,
            max=MAX_INSTANCES,
            metavar="N",
            help="Number of instances; the first five are the bundled ones.",
        ),
    ] = MIN_INSTANCES,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Write the suite to DIR. By default it rewrites the bundled suites of a checkout.",
        ),
    ] = None,
) -> None:
    """Write the suite long-context-stress with N instances of chain-walk-rules.

    The same N gives the same bytes. It writes nothing if it would overwrite a file that was not generated, or was
    changed since.
    """
    from orchestrator.suite.stress.suites import LONG_CONTEXT, STRESS, make_long_context, make_long_context_stress
    from orchestrator.suite.stress.target import check_own, find_bundled_directory
    from orchestrator.suite.stress.writing import apply_changes, plan_changes

    stress = make_long_context_stress(instances)
    if directory is None:
        home = find_bundled_directory()
        planned = [plan_changes(home / STRESS, stress), plan_changes(home / LONG_CONTEXT, make_long_context())]
    else:
        check_own(directory)
        planned = [plan_changes(directory, stress)]
    for changes in planned:
        apply_changes(changes)
    if COMMON.json:
        document = {
            "schema": "evalctl.gen-stress/1",
            "instances": instances,
            "suites": list(map(_changes_to_json, planned)),
        }
        print_json(document, indent=2)
        return
    from orchestrator.text import format_count

    for changes in planned:
        counts = f"{len(changes.write)} written, {len(changes.remove)} removed, {changes.unchanged} unchanged"
        print_data(f"{changes.directory}: {format_count(len(changes.write) + changes.unchanged, 'file')}; {counts}")
    if directory is not None:
        _print_hint(directory)


def _changes_to_json(changes: Changes) -> dict[str, str | int]:
    return {
        "directory": str(changes.directory),
        "written": len(changes.write),
        "removed": len(changes.remove),
        "unchanged": changes.unchanged,
    }


def _print_hint(directory: Path) -> None:
    import shlex

    from orchestrator.cli.hints import format_command
    from orchestrator.world import real_world

    words = shlex.join(["check", directory.resolve().name, "--suite-dir", str(directory)])
    print_notice(f"Check it by the name of its directory: {format_command(words, real_world().environment)}")
