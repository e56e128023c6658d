"""`results.jsonl`: one record per planned run that has a result, sorted by fixture, target and repetition.

Holds no id and no time but measured durations: offline, the same recordings give the same bytes.
"""

from __future__ import annotations

import json

from orchestrator.lab.report.run import LabRun
from store.events import Json

SCHEMA_VERSION = 1


def run_to_json(run: LabRun) -> dict[str, Json]:
    """One run as a JSON object. What was not measured is absent, never 0."""
    found: dict[str, Json] = {
        "schemaVersion": SCHEMA_VERSION,
        "capability": run.capability,
        "fixture": run.case_name,
        "version": run.version,
        "target": run.target,
        "repetition": run.repetition,
        "outcome": run.outcome,
        "reason": run.reason,
        "message": run.message,
        "judged": run.judged,
        "status": run.decision_status,
    }
    if run.decision_status is not None:
        found |= {"decision": run.decision, "abstain": run.abstain, "error": run.error, "confidence": run.confidence}
        found["trace"] = run.trace
        found["broken"] = [{"assertion": one.verifier, **one.detail} for one in run.verdicts if one.verdict != "pass"]
    measured = {"wallMs": run.wall_ms, "waitedMs": run.waited_ms, "calls": run.calls, "costNusd": run.cost_nusd}
    if run.asked:
        found["measured"] = {name: value for name, value in measured.items() if value is not None}
    return {name: value for name, value in found.items() if value is not None}


def render_run_line(run: LabRun) -> str:
    """The record on one line, pure ASCII."""
    return json.dumps(run_to_json(run), separators=(",", ":"), allow_nan=False)


def make_sort_key(run: LabRun) -> tuple[str, str, str, int]:
    """What the file is sorted by."""
    return run.capability, run.case_name, run.target, run.repetition
