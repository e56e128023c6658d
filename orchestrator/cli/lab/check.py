"""The verb `lab check`: check that a lab, its daemon configuration and its fixtures are well-formed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from orchestrator.cli.common import COMMON, Exit, print_data, print_error, print_json, print_notice
from orchestrator.cli.lab import options as lab_options

if TYPE_CHECKING:
    from orchestrator.lab.catalog import LabPlace
    from orchestrator.lab.model import Lab
    from orchestrator.lab.selection import Selection
    from store.events import Json


def check(
    capability: lab_options.Capability = None,
    fixture: lab_options.Fixtures = None,
    target: lab_options.Targets = None,
    lab_dir: lab_options.LabDir = None,
    config: lab_options.DaemonConfig = None,
) -> None:
    """Check lab.yaml, the daemon configuration and every fixture without running anything. No network.

    Prints every finding as FILE:LINE:COLUMN: FIELD: MESSAGE, and warns of cassettes that are not played. It reads the
    whole lab, whatever is selected. Findings give exit code 1; warnings alone give 0.
    """
    from orchestrator.lab.catalog import find_lab
    from orchestrator.lab.formats.lab_yaml import check_lab
    from orchestrator.lab.warnings import find_problems
    from orchestrator.text import format_count
    from orchestrator.world import real_world

    place = find_lab(lab_dir, config)
    # a bundled lab must pass wherever it is installed, and only `live` and `record` start its programs
    checked = check_lab(place, path=None if place.bundled else real_world().environment.get("PATH", ""))
    findings = list(checked.findings)
    warnings: list[str] = []
    chosen = None
    if checked.lab is not None:
        chosen = lab_options.select_lab_cases(checked.lab, capability, fixture, target)
        problems = find_problems(checked.lab, chosen, place.root)
        findings += problems.findings
        warnings += problems.warnings
    if COMMON.json:
        _print_json(place, checked.lab, chosen, findings, warnings)
    else:
        for line in findings:
            print_data(line)
        for line in warnings:
            print_notice(f"warning: {line}")
    if findings:
        print_error(f"{format_count(len(findings), 'finding')} in {place.root}")
        raise typer.Exit(Exit.FAILED)
    if chosen is not None:
        print_notice(f"{_describe_size(chosen)}: no findings")


def _describe_size(chosen: Selection) -> str:
    from orchestrator.text import format_count

    capabilities = len({fixture.capability for fixture in chosen.cases})
    return ", ".join(
        (
            format_count(capabilities, "capability", "capabilities"),
            format_count(len(chosen.cases), "fixture"),
            format_count(len(chosen.targets), "target"),
        )
    )


def _print_json(
    place: LabPlace, lab: Lab | None, chosen: Selection | None, findings: list[str], warnings: list[str]
) -> None:

    document: dict[str, Json] = {
        "schema": "evalctl.lab-check/1",
        "directory": str(place.root),
        "config": str(place.config),
        "bundled": place.bundled,
        "broken": bool(findings),
        "findings": findings,
        "warnings": warnings,
    }
    if lab is not None and chosen is not None:
        document |= {
            "id": lab.id,
            "version": lab.version,
            "capabilities": sorted({fixture.capability for fixture in chosen.cases}),
            "fixtures": [fixture.case_id for fixture in chosen.cases],
            "targets": [target.id for target in chosen.targets],
        }
    print_json(document, indent=2)
