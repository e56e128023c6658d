"""The verbs `list` and `check`: list the suites, and check that they are well-formed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.common import COMMON, Exit, print_data, print_error, print_json, print_notice

if TYPE_CHECKING:
    from orchestrator.suite.catalog import ListedSuite
    from store.events import Json

SuiteDir = Annotated[
    Path | None,
    typer.Option(
        "--suite-dir", metavar="DIR", help="A suite, or a directory of suites, in addition to the bundled ones."
    ),
]


def list_suites(suite_dir: SuiteDir = None) -> None:
    """List the bundled suites, and those in DIR.

    A suite with mistakes is listed as broken; `evalctl check` shows the mistakes.
    """
    from orchestrator.suite import catalog
    from orchestrator.text import align_rows

    listed = catalog.list_suites(suite_dir)
    if COMMON.json:
        _print_json({"schema": "evalctl.suites/1", "suites": [_suite_to_json(suite) for suite in listed]})
        return
    rows = [("SUITE", "VERSION", "TASKS", "SCRIPTS", "FROM", "DESCRIPTION"), *(_suite_row(suite) for suite in listed)]
    for line in align_rows(rows):
        print_data(line)
    broken = [suite for suite in listed if suite.outline is None]
    if broken:
        print_notice(f"{len(broken)} broken: evalctl check{_repeat_option(suite_dir)} shows the mistakes")


def check(
    suites: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SUITE]...", help="Suite ids or directory names. [default: all]"),
    ] = None,
    suite_dir: SuiteDir = None,
) -> None:
    """Check suites and their scripts without running anything.

    Prints every finding as FILE:LINE:COLUMN: FIELD: MESSAGE, and warns about this installation. Findings give exit code
    1; warnings alone give 0.
    """
    from orchestrator.installation import list_warnings
    from orchestrator.suite import catalog
    from orchestrator.text import format_count

    places = [catalog.find_place(name, suite_dir) for name in suites or []] or list(catalog.find_places(suite_dir))
    results = [catalog.check_place(place) for place in dict.fromkeys(places)]
    findings = [line for _, lines in results for line in lines]
    findings += catalog.find_duplicate_ids(places)
    warnings = [line for listed, _ in results for line in catalog.find_script_warnings(listed)]
    warnings += [line for listed, _ in results for line in catalog.find_repository_warnings(listed)]
    warnings += list_warnings()
    if COMMON.json:
        _print_json(
            {
                "schema": "evalctl.check/1",
                "suites": [{**_suite_to_json(listed), "findings": list(lines)} for listed, lines in results],
                "findings": findings,
                "warnings": warnings,
            }
        )
    else:
        for line in findings:
            print_data(line)
        for listed, lines in results:
            if listed.outline is not None and not lines:
                tasks = format_count(len(listed.outline.tasks), "task")
                print_notice(f"{listed.outline.suite_id} {listed.outline.suite_version}: ok, {tasks}")
        for line in warnings:
            print_notice(f"warning: {line}")
    if findings:
        print_error(f"{format_count(len(findings), 'finding')} in {format_count(len(results), 'suite')}")
        raise typer.Exit(Exit.FAILED)


def _suite_to_json(listed: ListedSuite) -> dict[str, Json]:
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


def _suite_row(listed: ListedSuite) -> tuple[str, str, str, str, str, str]:
    from orchestrator.text import format_count
    from store.documents.text import blank_unprintable

    suite, place = listed.outline, listed.place
    origin = "bundled" if place.bundled else str(place.directory)
    if suite is None:
        name = place.suite_id if place.suite_id and place.suite_id.isprintable() else place.directory.resolve().name
        return (name, "-", "-", "-", origin, f"BROKEN ({format_count(len(listed.errors), 'finding')})")
    scripted = sum(name in listed.scripted for name in suite.tasks)
    description = blank_unprintable(suite.description)
    return (suite.suite_id, suite.suite_version, str(len(suite.tasks)), str(scripted), origin, description)


def _repeat_option(suite_dir: Path | None) -> str:
    return "" if suite_dir is None else f" --suite-dir {suite_dir}"


def _print_json(document: Json) -> None:

    print_json(document, indent=2)
