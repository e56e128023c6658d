"""`report.json`: the report as JSON. Keys are spelled only here; the same rows give the same bytes."""

from __future__ import annotations

from orchestrator.suite.report.model import CachedInput, Compaction, Figures, Measured, Report, TaskReport
from orchestrator.text import format_json
from store.events import Json

SCHEMA = "evalctl.report/1"
SCHEMA_VERSION = 1


def report_to_json(report: Report) -> dict[str, Json]:
    """Return the report as a JSON object."""
    return {
        "schemaVersion": SCHEMA_VERSION,
        "schema": SCHEMA,
        "runId": report.sweep,
        "conditions": dict(report.conditions),
        "notes": list(report.notes),
        "tasks": [_task_to_json(task) for task in report.tasks],
        "summary": _summary_to_json(report),
    }


def encode_line(report: Report) -> str:
    """Return the report as one line of JSON."""
    return format_json(report_to_json(report))


def render_json(report: Report) -> str:
    """Return the file's content in pure ASCII, which every reader accepts."""
    return format_json(report_to_json(report), indent=2) + "\n"


def _task_to_json(task: TaskReport) -> dict[str, Json]:
    figures = task.figures
    document: dict[str, Json] = {
        "id": task.id,
        **({"variant": task.variant} if task.variant else {}),
        **_counts_to_json(figures),
        **_rate_to_json(figures),
        "passAtK": task.pass_at_k,
        "passHatK": task.pass_hat_k,
        "reliability": task.reliability,
        "measured": _measured_to_json(figures.measured, figures),
    }
    if figures.cached is not None:
        document["cachedInputRatio"] = figures.cached.ratio
        document["cachedInputRuns"] = figures.cached.runs_reporting
    document |= _estimated_to_json(figures)
    document["incidents"] = dict(figures.incidents)
    document["verifiers"] = [
        {
            "id": verifier.id,
            "kind": verifier.kind,
            "passed": verifier.passed,
            "failed": verifier.failed,
            "errored": verifier.errored,
            **({"tampered": verifier.tampered} if verifier.tampered else {}),
        }
        for verifier in task.verifiers
    ]
    if task.first_not_passed is not None:
        document["firstNotPassed"] = task.first_not_passed
    if task.examples:
        document["errorExamples"] = dict(task.examples)
    return document


def _summary_to_json(report: Report) -> dict[str, Json]:
    figures = report.summary
    document: dict[str, Json] = {
        "tasks": len(report.tasks),
        **_counts_to_json(figures),
        **_rate_to_json(figures),
        "coverage": figures.judged / figures.planned if figures.planned else None,
        "bounds": list(report.bounds) if report.bounds is not None else None,
        "reliability": dict(report.reliability),
        "measured": _measured_to_json(figures.measured, figures),
    }
    if figures.cached is not None:
        document["cachedInput"] = _cached_to_json(figures.cached, figures.judged)
    document |= _estimated_to_json(figures)
    document["incidents"] = dict(figures.incidents)
    document["ledger"] = {"calls": report.spent.calls, "tokens": report.spent.tokens, "nusd": report.spent.nusd}
    return document


def _counts_to_json(figures: Figures) -> dict[str, Json]:
    return {
        "planned": figures.planned,
        "judged": figures.judged,
        "passes": figures.passes,
        "failed": sum(figures.failed.values()),
        "failedBy": dict(figures.failed),
        "budgetExceeded": sum(figures.budget_exceeded.values()),
        "budgetExceededBy": dict(figures.budget_exceeded),
        "errored": sum(figures.errored.values()),
        "erroredBy": dict(figures.errored),
        "skipped": sum(figures.skipped.values()),
        "skippedBy": dict(figures.skipped),
        "unfinished": figures.unfinished,
        "again": figures.again,
    }


def _rate_to_json(figures: Figures) -> dict[str, Json]:
    return {
        "successRate": figures.success_rate,
        "wilson": list(figures.wilson) if figures.wilson is not None else None,
        "lowPower": figures.low_power,
    }


def _measured_to_json(measured: Measured, figures: Figures) -> dict[str, Json]:
    document: dict[str, Json] = {
        "wallMs": {"median": measured.wall_median_ms, "variance": measured.wall_variance_ms2},
        "turns": measured.turns,
        "toolCalls": measured.tool_calls,
        "usageRuns": measured.token_runs,
        "runsJudged": figures.judged,
        "perSuccess": {"wallMs": measured.wall_ms_per_success},
    }
    if measured.input_tokens is not None and measured.output_tokens is not None:
        document["inputTokens"] = measured.input_tokens
        document["outputTokens"] = measured.output_tokens
        document["totalTokens"] = measured.input_tokens + measured.output_tokens
        document["perSuccess"]["tokens"] = measured.tokens_per_success
    if figures.compaction is not None:
        document["compaction"] = _compaction_to_json(figures.compaction)
    return document


def _compaction_to_json(compaction: Compaction) -> dict[str, Json]:
    document: dict[str, Json] = {"runs": compaction.runs, "calls": compaction.calls}
    if compaction.input_tokens is not None and compaction.output_tokens is not None:
        document["inputTokens"] = compaction.input_tokens
        document["outputTokens"] = compaction.output_tokens
    return document


def _cached_to_json(cached: CachedInput, judged: int) -> dict[str, Json]:
    return {
        "tokens": cached.tokens,
        "inputTokens": cached.input_tokens,
        "ratio": cached.ratio,
        "runsReporting": cached.runs_reporting,
        "runsJudged": judged,
    }


def _estimated_to_json(figures: Figures) -> dict[str, Json]:
    return {"estimated": {"costUsd": figures.cost_usd}} if figures.cost_usd is not None else {}
