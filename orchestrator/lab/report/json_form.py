"""The JSON format of lab reports; the only place that spells its keys."""

from __future__ import annotations

import json

import attrs

from orchestrator.lab.report.model import (
    Calibration,
    CapabilityReport,
    FailingCase,
    LabFacts,
    LabReport,
    TargetComparison,
    TargetCost,
    TargetRow,
)
from orchestrator.lab.report.notes import list_limits
from store.events import Json

SCHEMA = "evalctl.lab-report/1"
SCHEMA_VERSION = 1


def report_to_json(report: LabReport) -> dict[str, Json]:
    """Return the report as a JSON object."""
    facts = report.facts
    return {
        "schemaVersion": SCHEMA_VERSION,
        "schema": SCHEMA,
        "runId": facts.sweep,
        "lab": facts.lab,
        "version": facts.version,
        "mode": facts.mode,
        "repeat": facts.repeat,
        "seed": facts.seed,
        "targets": targets_to_json(facts),
        "modelsAnswering": list(facts.answering),
        "conditions": dict(facts.conditions),
        "notes": list(report.notes),
        "summary": {
            "planned": report.planned,
            "judged": report.judged,
            "passes": report.passes,
            "failed": report.failed,
            "skipped": report.skipped,
            "again": report.again,
        },
        "capabilities": [_capability_to_json(one) for one in report.capabilities],
        "comparisons": [_comparison_to_json(one) for one in report.comparisons],
        "ledger": None if facts.spent is None else attrs.asdict(facts.spent),
        "limits": list(list_limits(report)),
    }


def render_json_line(report: LabReport) -> str:
    """Render the report as JSON on one line of ASCII."""
    return json.dumps(report_to_json(report), allow_nan=False)


def targets_to_json(facts: LabFacts) -> list[Json]:
    """Return the targets in the order of `lab.yaml`."""
    return [{"id": one.id, "backend": one.backend, "model": one.model, "local": one.local} for one in facts.targets]


def _capability_to_json(found: CapabilityReport) -> dict[str, Json]:
    return {
        "capability": found.name,
        "fixtures": found.cases,
        "targets": [_row_to_json(row) for row in found.rows],
        "failing": [_failing_to_json(one) for one in found.failing],
        "unstable": [
            {"fixture": one.case, "target": one.target, "endings": dict(one.endings)} for one in found.unstable
        ],
        "skipped": [
            {
                "fixture": one.case,
                "target": one.target,
                "reason": one.reason,
                "message": one.message,
                "runs": one.runs,
            }
            for one in found.skipped
        ],
    }


def _row_to_json(row: TargetRow) -> dict[str, Json]:
    return {
        "target": row.target,
        "planned": row.planned,
        "judged": row.judged,
        "passes": row.passes,
        "successRate": row.success_rate,
        "wilson": None if row.wilson is None else list(row.wilson),
        "lowPower": row.low_power,
        "stable": {
            "fraction": row.stability.fraction,
            "same": row.stability.same,
            "repeated": row.stability.repeated,
            "single": row.stability.single,
        },
        "abstained": row.abstained,
        "errors": row.errors,
        "infrastructure": dict(row.infrastructure),
        "wallMs": {"runs": row.latency.n, "p50": row.latency.p50_ms, "p95": row.latency.p95_ms},
        "cost": _cost_to_json(row.cost),
        "calibration": _calibration_to_json(row.calibration, sampled=row.wilson is not None),
        "skipped": dict(row.skipped),
        "notJudged": dict(row.interrupted),
        "unfinished": row.unfinished,
    }


def _cost_to_json(cost: TargetCost) -> dict[str, Json]:
    return {"runs": cost.runs, "nusd": cost.nusd, "unknownRuns": cost.unknown, "local": cost.local}


def _calibration_to_json(found: Calibration, *, sampled: bool) -> dict[str, Json]:
    return {
        "runs": found.n,
        "withoutConfidence": found.silent,
        "right": found.right,
        "brier": found.brier,
        "brierInterval": None if found.interval is None else list(found.interval),
        "brierSkill": found.skill,
        "ece": found.ece,
        "bins": [
            {
                "low": one.low,
                "high": one.high,
                "runs": one.n,
                "meanConfidence": one.mean_conf,
                "accuracy": one.accuracy,
                "wilson": list(one.wilson) if sampled and one.wilson is not None else None,
            }
            for one in found.bins
        ],
    }


def _failing_to_json(found: FailingCase) -> dict[str, Json]:
    return {
        "fixture": found.case,
        "target": found.target,
        "failed": found.failed,
        "judged": found.judged,
        "firstNotPassed": found.position,
        "broken": [
            {
                "assertion": one.assertion,
                "why": one.why,
                "cel": one.cel,
                "runs": one.runs,
                "examples": [{"reason": example.reason, "values": example.values} for example in one.examples],
                "differentValues": one.different,
            }
            for one in found.broken
        ],
        "abstentions": dict(found.abstentions),
        "errors": dict(found.errors),
    }


def _comparison_to_json(found: TargetComparison) -> dict[str, Json]:
    like = found.like_these
    return {
        "capability": found.capability,
        "baseline": found.baseline,
        "candidate": found.candidate,
        "cases": found.cases,
        "leftOut": found.left_out,
        "difference": None if like is None else like.diff,
        "se": None if like is None else like.se,
        "df": None if like is None else like.df,
        "interval": None if like is None else list(like.ci),
        "p": None if like is None else like.p,
        "signFlipP": found.signflip_p,
        "verdict": found.verdict,
        "differing": list(found.differing),
    }
