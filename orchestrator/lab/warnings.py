"""The warnings of `lab check` about a valid lab: unused cassettes, nodes that a target cannot answer, template fields
that no schema defines.
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
"""Levels below the folder of cassettes: capability, fixture, target."""


@attrs.frozen(kw_only=True)
class LabProblems:
    """The errors and warnings about a lab, one text each."""

    findings: tuple[str, ...]
    """Errors: the lab cannot run like this."""
    warnings: tuple[str, ...]


def find_problems(lab: Lab, selection: Selection, root: Path) -> LabProblems:
    """Check the cassettes, targets and templates of the selection. Messages name the lab's directory *root*."""
    findings: list[str] = []
    warnings = list(_find_orphans(lab, root)) if _is_whole_lab(lab, selection) else []
    for case in selection.cases:
        for target in selection.targets:
            name = str(root / case.cassette_path(target.id))
            try:
                reason = _explain_stale(lab, case, target, name)
            except UsageError as error:
                findings += str(error).splitlines()
            else:
                warnings += [f"{name}: {reason}"] if reason is not None else []
    warnings += _find_unusable_targets(lab, selection)
    warnings += _find_misnamed_fields(lab, selection, root)
    return LabProblems(findings=tuple(findings), warnings=tuple(warnings))


def _is_whole_lab(lab: Lab, selection: Selection) -> bool:
    return len(selection.cases) == len(lab.cases) and len(selection.targets) == len(lab.targets)


def _explain_stale(lab: Lab, case: LabCase, target: Target, name: str) -> str | None:
    """Return why a cassette does not answer, or answers an unknown node; None if it is fine or missing."""
    recorded = cassettes.find_cassette(lab, case, target.id, name=name)
    if recorded is None:
        return None
    cassette, _ = recorded
    if (reason := cassettes.explain_stale(cassette, case)) is not None:
        return f"stale, so it is not played: {reason}"
    nodes = [node.id for node in lab.daemon.capabilities[case.capability].list_asking_nodes()]
    unknown = [node for node in sorted(cassette.answers) if node not in nodes]
    if unknown:
        return f"it answers {unknown[0]!r}, which is not a node that makes calls{suggest_nearest(unknown[0], nodes)}"
    return None


def _find_orphans(lab: Lab, root: Path) -> Iterator[str]:
    """Yield a warning for each file among the cassettes that belongs to no case and target."""
    wanted = {case.cassette_path(target) for case in lab.cases for target in lab.targets}
    folder = lab.root / CASSETTES
    for directory, folders, files in os.walk(folder):
        folders.sort()
        depth = len(Path(directory).relative_to(folder).parts)
        if depth >= CASSETTE_DEPTH:
            folders.clear()
        for name in sorted(files):
            relative = (Path(directory) / name).relative_to(lab.root)
            if relative.as_posix() not in wanted and not name.startswith("."):
                yield f"{render_line(str(root / relative))}: belongs to no fixture and target, so it is never played"


def _find_unusable_targets(lab: Lab, selection: Selection) -> Iterator[str]:
    """Yield a warning for each model node that a target cannot answer: `typesafe` answers closed questions only."""
    from providers.endpoints.typesafe import (  # noqa: PLC0415 - most labs have no typesafe backend
        list_schema_problems,
    )

    for target in selection.targets:
        if lab.daemon.backends[target.backend].kind != "typesafe":
            continue
        for name in sorted({case.capability for case in selection.cases}):
            for node in lab.daemon.capabilities[name].flow:
                if isinstance(node, ModelNode) and (problems := list_schema_problems(node.answer)):
                    subject = f"target {target.id!r} cannot answer node {node.id!r} of {name!r}"
                    yield f"{subject}: {'; '.join(problems)}"


def _find_misnamed_fields(lab: Lab, selection: Selection, root: Path) -> Iterator[str]:
    """Yield a warning for each template field that no schema defines, in the selected cases' capabilities.

    All capabilities are checked if the whole lab is selected.
    """
    names = {case.capability for case in selection.cases}
    whole = _is_whole_lab(lab, selection)
    capabilities = [capability for name, capability in lab.daemon.capabilities.items() if whole or name in names]
    own = lab.config == (lab.root / CONFIG_FILE).resolve()
    yield from find_unknown_fields(lab.config, str(root / CONFIG_FILE if own else lab.config), capabilities)
