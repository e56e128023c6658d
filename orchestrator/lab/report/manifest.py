"""The file `manifest.json` of a lab's run directory: the sweep's id, times and conditions of measurement.

No other file of the directory contains ids or times of day.
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


def manifest_to_json(stored: StoredLabSweep) -> dict[str, Json]:
    """Return the manifest as a JSON object; times of events that did not happen are null."""
    sweep, facts = stored.sweep, stored.facts
    suite = sweep.conditions.get("suite")
    suite_fields: Mapping[str, Any] = suite if isinstance(suite, Mapping) else {}
    started = [run.started_at for run, _ in stored.rows if run.started_at is not None]
    ended = [run.ended_at for run, _ in stored.rows if run.ended_at is not None]
    return {
        "schemaVersion": SCHEMA_VERSION,
        "schema": SCHEMA,
        "runId": sweep.name,
        "command": sweep.command,
        "lab": facts.lab,
        "version": facts.version,
        "bundled": suite_fields.get("bundled"),
        "content": suite_fields.get("content"),
        "mode": facts.mode,
        "plannedAt": format_time(sweep.planned_at),
        "startedAt": format_time(min(started)) if started else None,
        "endedAt": format_time(max(ended)) if ended else None,
        "targets": targets_to_json(facts),
        "conditions": dict(facts.conditions),
        "runs": [
            {
                "run": f"{sweep.name}/{record.position}",
                "fixture": run.case,
                "target": run.target,
                "repetition": run.repetition,
                "attempts": record.attempts,
                "startedAt": None if record.started_at is None else format_time(record.started_at),
                "endedAt": None if record.ended_at is None else format_time(record.ended_at),
            }
            for record, run in stored.rows
        ],
    }


def render_manifest(stored: StoredLabSweep, cleaner: Cleaner) -> str:
    """Render the file's content in ASCII."""
    return json.dumps(clean_texts(manifest_to_json(stored), cleaner), indent=2, allow_nan=False) + "\n"
