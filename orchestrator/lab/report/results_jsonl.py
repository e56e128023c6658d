"""The file `results.jsonl`: one record per run with a result, sorted by capability, fixture, target and repetition.

Contains no ids and no times except measured durations: offline, the same recordings give the same bytes.
"""

from __future__ import annotations

from orchestrator.lab.report.run import LabRun
from orchestrator.text import format_json
from store.events import Json

SCHEMA_VERSION = 1


def run_to_json(run: LabRun) -> dict[str, Json]:
    """Return one run as a JSON object; figures that were not measured are absent, never 0."""
    record: dict[str, Json] = {
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
        record |= {"decision": run.decision, "abstain": run.abstain, "error": run.error, "confidence": run.confidence}
        record["trace"] = run.trace
        record["broken"] = [
            {"assertion": verdict.verifier, **verdict.detail} for verdict in run.verdicts if verdict.verdict != "pass"
        ]
    measured = {"wallMs": run.wall_ms, "waitedMs": run.waited_ms, "calls": run.calls, "costNusd": run.cost_nusd}
    if run.asked:
        record["measured"] = {name: value for name, value in measured.items() if value is not None}
    return {name: value for name, value in record.items() if value is not None}


def render_run_line(run: LabRun) -> str:
    """Render the record of *run* on one line of ASCII."""
    return format_json(run_to_json(run), compact=True)


def make_sort_key(run: LabRun) -> tuple[str, str, str, int]:
    """Make the key by which the file is sorted."""
    return run.capability, run.case_name, run.target, run.repetition
