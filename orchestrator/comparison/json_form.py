"""`comparison.json`: the comparison for programs. Keys are spelled once, here; the same sides give the same bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from orchestrator.comparison.arm import Arm, Counts
from orchestrator.comparison.model import (
    ESTIMATED,
    MEASURED,
    CaseBeyond,
    Clustering,
    Comparison,
    Delta,
    Metric,
    Needed,
    SuiteBeyond,
    TaskComparison,
)
from orchestrator.comparison.wording import incidents_of
from store.events import Json
from store.stats.compare import PLAYED_MODES
from store.stats.rates import MIN_JUDGED

SCHEMA = "evalctl.comparison/1"
SCHEMA_VERSION = 1


def comparison_to_json(found: Comparison) -> dict[str, Json]:
    """The comparison as a JSON object."""
    suite = _task_to_json(found, found.suite)
    del suite["id"]
    document: dict[str, Json] = {
        "schemaVersion": SCHEMA_VERSION,
        "schema": SCHEMA,
        "suiteId": found.baseline.suite_id,
        "suiteVersion": found.baseline.suite_version,
        "baseline": _side_to_json(found.baseline),
        "candidate": _side_to_json(found.candidate),
        "replay": found.replay,
        "differences": {
            name: {"baseline": before, "candidate": after} for name, (before, after) in found.differences.items()
        },
        "notes": list(found.notes),
        "tasks": [_task_to_json(found, task) for task in found.tasks],
        "summary": {
            "tasks": len(found.tasks),
            "onlyBaseline": list(found.only_baseline),
            "onlyCandidate": list(found.only_candidate),
            **(
                {"otherVersions": {name: list(both) for name, both in found.versions.items()}} if found.versions else {}
            ),
            "verdicts": dict(found.verdicts),
            "errored": found.errored,
            **suite,
        },
        "limits": list(found.limits),
    }
    if found.gaps is not None:
        document["startGaps"] = {
            "pairs": found.gaps.pairs,
            "meanMs": None if found.gaps.mean_us is None else found.gaps.mean_us / 1000,
            "longestMs": None if found.gaps.longest_us is None else found.gaps.longest_us / 1000,
            "wide": found.gaps.wide,
        }
    if found.beyond is not None:
        document["beyond"] = _suite_beyond(found.beyond)
    return document


def render_json(found: Comparison) -> str:
    """The file's content. Pure ASCII: whatever a name holds, every reader takes it."""
    return json.dumps(comparison_to_json(found), indent=2, allow_nan=False) + "\n"


def render_json_line(found: Comparison) -> str:
    """The same on one line."""
    return json.dumps(comparison_to_json(found), allow_nan=False)


def _side_to_json(arm: Arm) -> dict[str, Json]:
    return {
        "name": arm.name,
        "runId": arm.sweep,
        **({"variant": arm.variant} if arm.variant else {}),
        "conditions": dict(arm.conditions),
    }


def _task_to_json(found: Comparison, task: TaskComparison) -> dict[str, Json]:
    rates = task.baseline.success_rate, task.candidate.success_rate
    told = task.verdict != "not comparable" and rates[0] is not None and rates[1] is not None
    return {
        "id": task.id,
        "verdict": task.verdict,
        **({"why": task.why} if task.why is not None else {}),
        "baseline": _counts_to_json(task.baseline, found.baseline),
        "candidate": _counts_to_json(task.candidate, found.candidate),
        "successRateDelta": rates[1] - rates[0] if told and rates[0] is not None and rates[1] is not None else None,
        "deltas": {
            "measured": _deltas_to_json(task.deltas, MEASURED),
            "estimated": _deltas_to_json(task.deltas, ESTIMATED),
        },
        "incidents": {
            name: {"baseline": before, "candidate": after} for name, before, after in incidents_of(task, found)
        },
        **({"beyond": _case_beyond(task.beyond)} if task.beyond is not None else {}),
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
    found: dict[str, Json] = {"baseline": delta.baseline, "candidate": delta.candidate, "delta": delta.delta}
    if delta.why is not None:
        found["why"] = delta.why
    return found


def _case_beyond(beyond: CaseBeyond) -> dict[str, Json]:
    return {
        "newcombe": None if beyond.newcombe is None else list(beyond.newcombe),
        "fisherP": beyond.fisher_p,
        "holmP": beyond.holm_p,
        "repetitionsNeeded": beyond.repetitions_needed,
    }


def _suite_beyond(beyond: SuiteBeyond) -> dict[str, Json]:
    like, these, outcomes = beyond.like_these, beyond.these, beyond.outcomes
    return {
        "cases": beyond.cases,
        "leftOut": list(beyond.left_out),
        "casesLikeThese": None
        if like is None
        else {
            "difference": like.diff,
            "se": like.se,
            "df": like.df,
            "interval": list(like.ci),
            "p": like.p,
            "signFlipP": beyond.signflip_p,
            "verdict": beyond.verdict,
        },
        "theseCases": None if these is None else {"difference": these.diff, "se": these.se, "interval": list(these.ci)},
        "clustering": {
            "baseline": _clustering_to_json(beyond.baseline),
            "candidate": _clustering_to_json(beyond.candidate),
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
        "needed": None if beyond.needed is None else _needed_to_json(beyond.needed),
        "tests": beyond.tests,
        "survivors": beyond.survivors,
    }


def _clustering_to_json(found: Clustering | None) -> Json:
    if found is None:
        return None
    return {
        "successRate": found.success_rate,
        "se": found.se,
        "icc": found.icc,
        "designEffect": found.design_effect,
    }


def _needed_to_json(needed: Needed) -> dict[str, Json]:
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
