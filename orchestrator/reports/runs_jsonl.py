"""`runs.jsonl`: one record per run that has a result, in the stored order."""

from __future__ import annotations

from orchestrator.reports.conditions import format_time
from orchestrator.text import format_json
from store.events import Json
from store.rows import CellRecord, RunRecord, SweepRow, Verdict

SCHEMA_VERSION = 1


def run_to_json(sweep: SweepRow, run: RunRecord, cell: CellRecord) -> dict[str, Json]:
    """Return one run as a JSON object. Keys of unmeasured figures are absent, never 0."""
    record: dict[str, Json] = {
        "schemaVersion": SCHEMA_VERSION,
        "runId": sweep.name,
        "run": f"{sweep.name}/{run.position}",
        "position": run.position,
        "taskId": cell.case_id,
        **({"variant": cell.variant} if cell.variant else {}),
        "repetition": run.repetition,
        "seed": sweep.seed + run.repetition,
        "status": run.outcome,
        "reason": run.reason,
        "judged": run.judged,
        "composite": run.composite,
        "basis": run.basis,
        "attempts": run.attempts,
        "startedAt": format_time(run.started_at) if run.started_at is not None else None,
        "endedAt": format_time(run.ended_at) if run.ended_at is not None else None,
        "model": run.measured.model_resolved,
        "verifiers": [verdict_to_json(verdict) for verdict in run.verdicts],
        "measured": measurements_to_json(run),
        "incidents": dict(run.detail.get("incidents", {})),
    }
    if run.detail.get("cachedPartial"):
        record["cachedPartial"] = True
    if run.outcome in ("error", "skipped"):
        record["error"] = {"cause": run.reason, "message": run.detail.get("message")}
    if run.decision_status is not None:
        record["decision"] = run.detail.get("decision")
    if "divergence" in run.detail:
        record["divergence"] = run.detail["divergence"]
    return {name: value for name, value in record.items() if value is not None}


def run_line(sweep: SweepRow, run: RunRecord, cell: CellRecord) -> str:
    """Return the record as one line of JSON in pure ASCII."""
    return format_json(run_to_json(sweep, run, cell), compact=True)


def verdict_to_json(verdict: Verdict) -> dict[str, Json]:
    """Return the verdict of a verifier as a JSON object."""
    record: dict[str, Json] = {
        "id": verdict.verifier,
        "kind": verdict.kind,
        "verdict": verdict.verdict,
        "score": verdict.score,
        "detail": dict(verdict.detail) or None,
    }
    return {name: value for name, value in record.items() if value is not None}


def measurements_to_json(run: RunRecord) -> dict[str, Json]:
    """Return the measurements of a run: durations in ms, tokens as the provider reported them."""
    figures, partial = run.measured, bool(run.detail.get("cachedPartial"))
    compaction = run.detail.get("compaction", {})
    record = {
        "wallMs": figures.wall_ms,
        "waitedMs": figures.waited_ms,
        "turns": figures.turns,
        "toolCalls": figures.tool_calls,
        "calls": figures.calls,
        "inputTokens": figures.input_tokens,
        "outputTokens": figures.output_tokens,
        "cachedInputTokens": None if partial else figures.cached_tokens,
        "cacheWriteTokens": figures.cache_write_tokens,
        "reasoningTokens": figures.reasoning_tokens,
        "compactionCalls": compaction.get("calls"),
        "compactionInputTokens": compaction.get("input"),
        "compactionOutputTokens": compaction.get("output"),
    }
    return {name: value for name, value in record.items() if value is not None}
