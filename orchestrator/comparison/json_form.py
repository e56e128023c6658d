"""`comparison.json`: the comparison as JSON. Keys are spelled only here; the same sides give the same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orchestrator.comparison.arm import Arm, Counts
from orchestrator.comparison.model import (
    ESTIMATED,
    MEASURED,
    CaseDetail,
    Clustering,
    Comparison,
    Delta,
    Metric,
    SampleSize,
    SuiteDetail,
    TaskComparison,
)
from orchestrator.comparison.wording import incidents_of
from orchestrator.text import format_json
from store.events import Json
from store.stats.compare import PLAYED_MODES
from store.stats.rates import MIN_JUDGED

SCHEMA = "evalctl.comparison/1"
SCHEMA_VERSION = 1


def comparison_to_json(comparison: Comparison) -> dict[str, Json]:
    """Return the comparison as a JSON object."""
    suite = _task_to_json(comparison, comparison.suite)
    del suite["id"]
    document: dict[str, Json] = {
        "schemaVersion": SCHEMA_VERSION,
        "schema": SCHEMA,
        "suiteId": comparison.baseline.suite_id,
        "suiteVersion": comparison.baseline.suite_version,
        "baseline": _side_to_json(comparison.baseline),
        "candidate": _side_to_json(comparison.candidate),
        "replay": comparison.replay,
        "differences": {
            name: {"baseline": before, "candidate": after} for name, (before, after) in comparison.differences.items()
        },
        "notes": list(comparison.notes),
        "tasks": [_task_to_json(comparison, task) for task in comparison.tasks],
        "summary": {
            "tasks": len(comparison.tasks),
            "onlyBaseline": list(comparison.only_baseline),
            "onlyCandidate": list(comparison.only_candidate),
            **(
                {"otherVersions": {name: list(both) for name, both in comparison.versions.items()}}
                if comparison.versions
                else {}
            ),
            "verdicts": dict(comparison.verdicts),
            "errored": comparison.errored,
            **suite,
        },
        "limits": list(comparison.limits),
    }
    if comparison.gaps is not None:
        document["startGaps"] = {
            "pairs": comparison.gaps.pairs,
            "meanMs": None if comparison.gaps.mean_us is None else comparison.gaps.mean_us / 1000,
            "longestMs": None if comparison.gaps.longest_us is None else comparison.gaps.longest_us / 1000,
            "wide": comparison.gaps.wide,
        }
    if comparison.detail is not None:
        document["beyond"] = _suite_detail_to_json(comparison.detail)
    return document


def render_json(comparison: Comparison) -> str:
    """Return the file's content in pure ASCII, which every reader accepts."""
    return format_json(comparison_to_json(comparison), indent=2) + "\n"


def render_json_line(comparison: Comparison) -> str:
    """Return the comparison as one line of JSON."""
    return format_json(comparison_to_json(comparison))


def _side_to_json(arm: Arm) -> dict[str, Json]:
    return {
        "name": arm.name,
        "runId": arm.sweep,
        **({"variant": arm.variant} if arm.variant else {}),
        "conditions": dict(arm.conditions),
    }


def _task_to_json(comparison: Comparison, task: TaskComparison) -> dict[str, Json]:
    rates = task.baseline.success_rate, task.candidate.success_rate
    delta = None
    if task.verdict != "not comparable" and rates[0] is not None and rates[1] is not None:
        delta = rates[1] - rates[0]
    return {
        "id": task.id,
        "verdict": task.verdict,
        **({"why": task.why} if task.why is not None else {}),
        "baseline": _counts_to_json(task.baseline, comparison.baseline),
        "candidate": _counts_to_json(task.candidate, comparison.candidate),
        "successRateDelta": delta,
        "deltas": {
            "measured": _deltas_to_json(task.deltas, MEASURED),
            "estimated": _deltas_to_json(task.deltas, ESTIMATED),
        },
        "incidents": {
            name: {"baseline": before, "candidate": after} for name, before, after in incidents_of(task, comparison)
        },
        **({"beyond": _case_detail_to_json(task.detail)} if task.detail is not None else {}),
    }


def _counts_to_json(counts: Counts, arm: Arm) -> dict[str, Json]:
    sampled = counts.wilson if arm.mode not in PLAYED_MODES else None
    return {
        "planned": counts.planned,
        "judged": counts.judged,
        "passes": counts.passes,
        "budgetExceeded": counts.budget_exceeded,
        "errored": counts.errored,
        "skipped": counts.skipped,
        "unfinished": counts.unfinished,
        "successRate": counts.success_rate,
        "wilson": None if sampled is None else list(sampled),
        "lowPower": arm.mode not in PLAYED_MODES and counts.judged < MIN_JUDGED,
        "compactedRuns": counts.compacted,
        "cachedInputRuns": counts.cached_runs,
    }


def _deltas_to_json(deltas: Mapping[Metric, Delta], metrics: Iterable[Metric]) -> dict[str, Json]:
    return {metric: _delta_to_json(deltas[metric]) for metric in metrics}


def _delta_to_json(delta: Delta) -> dict[str, Json]:
    document: dict[str, Json] = {"baseline": delta.baseline, "candidate": delta.candidate, "delta": delta.delta}
    if delta.why is not None:
        document["why"] = delta.why
    return document


def _case_detail_to_json(detail: CaseDetail) -> dict[str, Json]:
    return {
        "newcombe": None if detail.newcombe is None else list(detail.newcombe),
        "fisherP": detail.fisher_p,
        "holmP": detail.holm_p,
        "repetitionsNeeded": detail.repetitions_needed,
    }


def _suite_detail_to_json(detail: SuiteDetail) -> dict[str, Json]:
    like, these, outcomes = detail.like_these, detail.these, detail.outcomes
    return {
        "cases": detail.cases,
        "leftOut": list(detail.left_out),
        "casesLikeThese": None
        if like is None
        else {
            "difference": like.diff,
            "se": like.se,
            "df": like.df,
            "interval": list(like.ci),
            "p": like.p,
            "signFlipP": detail.sign_flip_p,
            "verdict": detail.verdict,
        },
        "theseCases": None if these is None else {"difference": these.diff, "se": these.se, "interval": list(these.ci)},
        "clustering": {
            "baseline": _clustering_to_json(detail.baseline),
            "candidate": _clustering_to_json(detail.candidate),
        },
        "pairedOutcomes": None
        if outcomes is None
        else {
            "both": outcomes.both,
            "onlyCandidate": outcomes.only_candidate,
            "onlyBaseline": outcomes.only_baseline,
            "neither": outcomes.neither,
            "newcombe": None if outcomes.newcombe is None else list(outcomes.newcombe),
            "mcnemarP": outcomes.mcnemar_p,
        },
        "needed": None if detail.needed is None else _sample_size_to_json(detail.needed),
        "tests": detail.tests,
        "survivors": detail.survivors,
    }


def _clustering_to_json(clustering: Clustering | None) -> Json:
    if clustering is None:
        return None
    return {
        "successRate": clustering.success_rate,
        "se": clustering.se,
        "icc": clustering.icc,
        "designEffect": clustering.design_effect,
    }


def _sample_size_to_json(needed: SampleSize) -> dict[str, Json]:
    return {
        "smallestDifference": needed.smallest,
        "cases": needed.cases,
        "repetitions": needed.repetitions,
        "buyCases": needed.buy_cases,
        "variances": {
            "effect": needed.variances.effect,
            "baseline": needed.variances.baseline,
            "candidate": needed.variances.candidate,
            "assumed": needed.variances.assumed,
        },
    }
