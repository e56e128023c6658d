"""`manifest.json`: which sweep a lab's run directory is of, when it was, and under which conditions.

The only file of the directory that holds ids and times.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from orchestrator.lab.report.json_form import targets_to_json
from orchestrator.lab.report.stored import StoredLabSweep
from orchestrator.reports.clean import clean_texts
from orchestrator.reports.conditions import format_time
from store.events import Json
from store.secrets.scanner import Cleaner

SCHEMA = "evalctl.lab-run/1"
SCHEMA_VERSION = 1


def manifest_to_json(found: StoredLabSweep) -> dict[str, Json]:
    """The manifest as a JSON object. What did not happen is null."""
    sweep, facts = found.sweep, found.facts
    suite = sweep.conditions.get("suite")
    known: Mapping[str, Any] = suite if isinstance(suite, Mapping) else {}
    begun = [run.started_at for run, _ in found.rows if run.started_at is not None]
    ended = [run.ended_at for run, _ in found.rows if run.ended_at is not None]
    return {
        "schemaVersion": SCHEMA_VERSION,
        "schema": SCHEMA,
        "runId": sweep.name,
        "command": sweep.command,
        "lab": facts.lab,
        "version": facts.version,
        "bundled": known.get("bundled"),
        "content": known.get("content"),
        "mode": facts.mode,
        "plannedAt": format_time(sweep.planned_at),
        "startedAt": format_time(min(begun)) if begun else None,
        "endedAt": format_time(max(ended)) if ended else None,
        "targets": targets_to_json(facts),
        "conditions": dict(facts.conditions),
        "runs": [
            {
                "run": f"{sweep.name}/{run.position}",
                "fixture": lab.case,
                "target": lab.target,
                "repetition": lab.repetition,
                "attempts": run.attempts,
                "startedAt": None if run.started_at is None else format_time(run.started_at),
                "endedAt": None if run.ended_at is None else format_time(run.ended_at),
            }
            for run, lab in found.rows
        ],
    }


def render_manifest(found: StoredLabSweep, cleaner: Cleaner) -> str:
    """The file's content, pure ASCII."""
    return json.dumps(clean_texts(manifest_to_json(found), cleaner), indent=2, allow_nan=False) + "\n"
