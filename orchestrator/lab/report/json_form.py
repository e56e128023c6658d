"""The JSON format of lab reports; the only place that spells its keys."""

from __future__ import annotations

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
from orchestrator.text import format_json
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
        "capabilities": [_capability_to_json(capability) for capability in report.capabilities],
        "comparisons": [_comparison_to_json(comparison) for comparison in report.comparisons],
        "ledger": None if facts.spent is None else attrs.asdict(facts.spent),
        "limits": list(list_limits(report)),
    }


def render_json_line(report: LabReport) -> str:
    """Render the report as JSON on one line of ASCII."""
    return format_json(report_to_json(report))


def targets_to_json(facts: LabFacts) -> list[Json]:
    """Return the targets in the order of `lab.yaml`."""
    return [
        {"id": target.id, "backend": target.backend, "model": target.model, "local": target.local}
        for target in facts.targets
    ]


def _capability_to_json(capability: CapabilityReport) -> dict[str, Json]:
    return {
        "capability": capability.name,
        "fixtures": capability.cases,
        "targets": [_row_to_json(row) for row in capability.rows],
        "failing": [_failing_to_json(failing) for failing in capability.failing],
        "unstable": [
            {"fixture": unstable.case, "target": unstable.target, "endings": dict(unstable.endings)}
            for unstable in capability.unstable
        ],
        "skipped": [
            {
                "fixture": skipped.case,
                "target": skipped.target,
                "reason": skipped.reason,
                "message": skipped.message,
                "runs": skipped.runs,
            }
            for skipped in capability.skipped
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


def _calibration_to_json(calibration: Calibration, *, sampled: bool) -> dict[str, Json]:
    return {
        "runs": calibration.n,
        "withoutConfidence": calibration.silent,
        "right": calibration.right,
        "brier": calibration.brier,
        "brierInterval": None if calibration.interval is None else list(calibration.interval),
        "brierSkill": calibration.skill,
        "ece": calibration.ece,
        "bins": [
            {
                "low": interval.low,
                "high": interval.high,
                "runs": interval.n,
                "meanConfidence": interval.mean_conf,
                "accuracy": interval.accuracy,
                "wilson": list(interval.wilson) if sampled and interval.wilson is not None else None,
            }
            for interval in calibration.bins
        ],
    }


def _failing_to_json(failing: FailingCase) -> dict[str, Json]:
    return {
        "fixture": failing.case,
        "target": failing.target,
        "failed": failing.failed,
        "judged": failing.judged,
        "firstNotPassed": failing.position,
        "broken": [
            {
                "assertion": broken.assertion,
                "why": broken.why,
                "cel": broken.cel,
                "runs": broken.runs,
                "examples": [{"reason": example.reason, "values": example.values} for example in broken.examples],
                "differentValues": broken.different,
            }
            for broken in failing.broken
        ],
        "abstentions": dict(failing.abstentions),
        "errors": dict(failing.errors),
    }


def _comparison_to_json(comparison: TargetComparison) -> dict[str, Json]:
    like = comparison.like_these
    return {
        "capability": comparison.capability,
        "baseline": comparison.baseline,
        "candidate": comparison.candidate,
        "cases": comparison.cases,
        "leftOut": comparison.left_out,
        "difference": None if like is None else like.diff,
        "se": None if like is None else like.se,
        "df": None if like is None else like.df,
        "interval": None if like is None else list(like.ci),
        "p": None if like is None else like.p,
        "signFlipP": comparison.signflip_p,
        "verdict": comparison.verdict,
        "differing": list(comparison.differing),
    }
