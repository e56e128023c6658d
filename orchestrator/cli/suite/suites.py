"""The verbs `list` and `check`: what there is to run, and whether it is well-formed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.common import COMMON, Exit, complain, out, say

if TYPE_CHECKING:
    from orchestrator.suite.catalog import Listed
    from store.events import Json

SuiteDir = Annotated[
    Path | None,
    typer.Option("--suite-dir", metavar="DIR", help="A suite, or a directory of suites, beside the bundled ones."),
]


def list_suites(suite_dir: SuiteDir = None) -> None:
    """List the bundled suites, and those in DIR.

    A broken suite is listed as broken; `evalctl check` tells what is wrong with it.
    """
    from orchestrator.suite import catalog as bundled
    from orchestrator.text import aligned

    listed = bundled.list_suites(suite_dir)
    if COMMON.json:
        _print_json({"schema": "evalctl.suites/1", "suites": [_described(one) for one in listed]})
        return
    rows = [("SUITE", "VERSION", "TASKS", "SCRIPTS", "FROM", "DESCRIPTION"), *(_row(one) for one in listed)]
    for line in aligned(rows):
        out(line)
    broken = [one for one in listed if one.outline is None]
    if broken:
        say(f"{len(broken)} broken: evalctl check{_again(suite_dir)} tells what is wrong")


def check(
    suites: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SUITE]...", help="Suite ids or directory names; all suites where none is given."),
    ] = None,
    suite_dir: SuiteDir = None,
) -> None:
    """Check suites and their scripts without running anything.

    Prints every finding as FILE:LINE:COLUMN: FIELD: MESSAGE, and warns about this installation. Exits with 1 where
    there are findings; warnings alone leave it at 0.
    """
    from orchestrator.installation import warnings_here
    from orchestrator.suite import catalog as bundled
    from orchestrator.text import counted

    places = [bundled.find_place(name, suite_dir) for name in suites or []] or list(bundled.find_places(suite_dir))
    results = [bundled.check_place(place) for place in dict.fromkeys(places)]
    findings = [line for _, lines in results for line in lines]
    findings += bundled.duplicate_ids(places)
    warnings = [*(line for listed, _ in results for line in bundled.script_warnings(listed)), *warnings_here()]
    if COMMON.json:
        _print_json(
            {
                "schema": "evalctl.check/1",
                "suites": [{**_described(listed), "findings": list(lines)} for listed, lines in results],
                "findings": findings,
                "warnings": warnings,
            }
        )
    else:
        for line in findings:
            out(line)
        for listed, lines in results:
            if listed.outline is not None and not lines:
                tasks = counted(len(listed.outline.tasks), "task")
                say(f"{listed.outline.suite_id} {listed.outline.suite_version}: ok, {tasks}")
        for line in warnings:
            say(f"warning: {line}")
    if findings:
        complain(f"{counted(len(findings), 'finding')} in {counted(len(results), 'suite')}")
        raise typer.Exit(Exit.FAILED)


def _described(listed: Listed) -> dict[str, Json]:
    suite, place = listed.outline, listed.place
    common = {"directory": str(place.directory), "bundled": place.bundled, "broken": suite is None}
    if suite is None:
        return {**common, "suiteId": place.suite_id, "errors": list(listed.errors)}
    return {
        **common,
        "suiteId": suite.suite_id,
        "suiteVersion": suite.suite_version,
        "description": suite.description,
        "tasks": [
            {"id": name, "tags": list(tags), "scripted": name in listed.scripted} for name, tags in suite.tasks.items()
        ],
    }


def _row(listed: Listed) -> tuple[str, str, str, str, str, str]:
    from orchestrator.text import counted
    from store.documents.text import blank_unprintable

    suite, place = listed.outline, listed.place
    origin = "bundled" if place.bundled else str(place.directory)
    if suite is None:
        name = place.suite_id if place.suite_id and place.suite_id.isprintable() else place.directory.resolve().name
        return (name, "-", "-", "-", origin, f"BROKEN ({counted(len(listed.errors), 'finding')})")
    scripted = sum(name in listed.scripted for name in suite.tasks)
    description = blank_unprintable(suite.description)
    return (suite.suite_id, suite.suite_version, str(len(suite.tasks)), str(scripted), origin, description)


def _again(suite_dir: Path | None) -> str:
    return "" if suite_dir is None else f" --suite-dir {suite_dir}"


def _print_json(document: Json) -> None:
    import json

    out(json.dumps(document, ensure_ascii=False, indent=2))
