"""What is doubtful in a lab that was read: cassettes that nothing plays, nodes that a target cannot be asked, fields of
templates that no schema names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import attrs

from orchestrator.lab.catalog import CONFIG_FILE
from orchestrator.lab.model import CASSETTES, Lab, LabCase, Target
from orchestrator.lab.recordings import cassettes
from orchestrator.lab.selection import Selection
from orchestrator.lab.template_fields import find_unknown_fields
from providers.decisions.excerpts import render_line
from providers.decisions.model import ModelNode
from store.documents.structure import suggest_nearest
from store.errors import UsageError

CASSETTE_DEPTH = 3
"""Below it: capability, fixture, target."""


@attrs.frozen(kw_only=True)
class LabProblems:
    """What is wrong, and what only looks so; one text each."""

    findings: tuple[str, ...]
    warnings: tuple[str, ...]


def find_problems(lab: Lab, selection: Selection, root: Path) -> LabProblems:
    """Look at the cassettes, targets and templates of what was chosen. Messages call the lab's directory *root*."""
    findings: list[str] = []
    warnings = list(_find_orphans(lab, root)) if _is_whole_lab(lab, selection) else []
    for fixture in selection.cases:
        for target in selection.targets:
            name = str(root / fixture.cassette_path(target.id))
            try:
                reason = _explain_stale(lab, fixture, target, name)
            except UsageError as error:
                findings += str(error).splitlines()
            else:
                warnings += [f"{name}: {reason}"] if reason is not None else []
    warnings += _find_unusable_targets(lab, selection)
    warnings += _find_misnamed_fields(lab, selection, root)
    return LabProblems(findings=tuple(findings), warnings=tuple(warnings))


def _is_whole_lab(lab: Lab, selection: Selection) -> bool:
    return len(selection.cases) == len(lab.cases) and len(selection.targets) == len(lab.targets)


def _explain_stale(lab: Lab, fixture: LabCase, target: Target, name: str) -> str | None:
    """Why a cassette is not played, or plays what nobody asks; None where all is well or there is none."""
    found = cassettes.find_cassette(lab, fixture, target.id, name=name)
    if found is None:
        return None
    cassette, _ = found
    if (reason := cassettes.explain_stale(cassette, fixture)) is not None:
        return f"stale, so it is not played: {reason}"
    nodes = [node.id for node in lab.daemon.capabilities[fixture.capability].list_asking_nodes()]
    strange = [node for node in sorted(cassette.answers) if node not in nodes]
    if strange:
        return f"it answers {strange[0]!r}, which is no node that asks{suggest_nearest(strange[0], nodes)}"
    return None


def _find_orphans(lab: Lab, root: Path) -> Iterator[str]:
    """Files among the cassettes that belong to no fixture and target."""
    wanted = {fixture.cassette_path(target) for fixture in lab.cases for target in lab.targets}
    folder = lab.root / CASSETTES
    for directory, folders, files in os.walk(folder):
        folders.sort()
        depth = len(Path(directory).relative_to(folder).parts)
        if depth >= CASSETTE_DEPTH:
            folders.clear()
        for name in sorted(files):
            relative = (Path(directory) / name).relative_to(lab.root)
            if relative.as_posix() not in wanted and not name.startswith("."):
                yield (
                    f"{render_line(str(root / relative))}: no cassette of a fixture and a target, so it is never played"
                )


def _find_unusable_targets(lab: Lab, selection: Selection) -> Iterator[str]:
    """Targets that a capability's model nodes cannot be aimed at: a typesafe backend answers closed questions alone."""
    from providers.endpoints.typesafe import list_schema_problems

    for target in selection.targets:
        if lab.daemon.backends[target.backend].kind != "typesafe":
            continue
        for name in sorted({fixture.capability for fixture in selection.cases}):
            for node in lab.daemon.capabilities[name].flow:
                if isinstance(node, ModelNode) and (problems := list_schema_problems(node.answer)):
                    asked = f"target {target.id!r} cannot be asked node {node.id!r} of {name!r}"
                    yield f"{asked}: {'; '.join(problems)}"


def _find_misnamed_fields(lab: Lab, selection: Selection, root: Path) -> Iterator[str]:
    """Fields in templates that no input has; of every capability where everything was chosen."""
    wanted = {fixture.capability for fixture in selection.cases}
    capabilities = lab.daemon.capabilities.values()
    looked_at = [one for one in capabilities if one.name in wanted or _is_whole_lab(lab, selection)]
    own = lab.config == (lab.root / CONFIG_FILE).resolve()
    yield from find_unknown_fields(lab.config, str(root / CONFIG_FILE if own else lab.config), looked_at)
