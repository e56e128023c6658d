"""Builds a `Comparison` from two sides. Pure: both sides have been read before."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

import attrs

from orchestrator.comparison.arm import Arm, Counts, pool_counts
from orchestrator.comparison.deltas import Conditions, conditions_between, deltas_between, errors_between
from orchestrator.comparison.detail import add_detail
from orchestrator.comparison.model import Comparison, Incompatible, TaskComparison
from orchestrator.comparison.notes import limits_of, list_notes
from store.events import Json
from store.stats.compare import PLAYED_MODES, ComparisonVerdict, SideCounts, compare_verdict
from store.stats.rates import MIN_JUDGED
from store.tallies import StartGaps

UNCOMPARED_CONDITIONS = frozenset({"suiteId", "suiteVersion", "plannedAt", "modelsAnswering", "variant", "variants"})
"""Conditions left out of the differences: equal by rule, always different, or reported elsewhere."""


def compare_arms(baseline: Arm, candidate: Arm, *, gaps: StartGaps | None = None, detail: bool = False) -> Comparison:
    """Compare the sides; *detail* adds further statistics, which change no verdict.

    Raises:
        Incompatible: they measured different suites, or different versions of one.
    """
    suites = [(arm.suite_id, arm.suite_version) for arm in (baseline, candidate)]
    if suites[0] != suites[1]:
        names = [" ".join(suite) for suite in suites]
        raise Incompatible(baseline=names[0], candidate=names[1])
    conditions = conditions_between(baseline, candidate)
    on_both = sorted(baseline.tasks.keys() & candidate.tasks.keys())
    versions = dict(_compare_versions(baseline.versions, candidate.versions, on_both))
    shared = [name for name in on_both if name not in versions]
    tasks = [
        _compare_task(name, baseline.tasks[name], candidate.tasks[name], (baseline, candidate), conditions)
        for name in shared
    ]
    both = pool_counts(baseline, shared), pool_counts(candidate, shared)
    tally = Counter(task.verdict for task in tasks)
    comparison = Comparison(
        baseline=baseline,
        candidate=candidate,
        replay=baseline.mode == candidate.mode and baseline.mode in PLAYED_MODES,
        differences=dict(_find_differences(baseline.conditions, candidate.conditions)),
        tasks=tuple(tasks),
        only_baseline=tuple(sorted(baseline.tasks.keys() - candidate.tasks.keys())),
        only_candidate=tuple(sorted(candidate.tasks.keys() - baseline.tasks.keys())),
        versions=versions,
        suite=_compare_suite(tasks, both, (baseline, candidate), conditions),
        verdicts={word: tally[word] for word in get_args(ComparisonVerdict) if tally[word]},
        errored=sum(side.errored for side in both),
        gaps=gaps,
        notes=(),
        limits=(),
    )
    comparison = attrs.evolve(comparison, notes=tuple(list_notes(comparison)), limits=limits_of(comparison))
    if detail and not comparison.replay and conditions.modes is None:
        return add_detail(comparison)
    return comparison


def _compare_versions(
    before: Mapping[str, str], after: Mapping[str, str], names: Sequence[str]
) -> Iterator[tuple[str, tuple[str, str]]]:
    for name in names:
        if name in before and name in after and before[name] != after[name]:
            yield name, (before[name], after[name])


def _compare_task(
    name: str, before: Counts, after: Counts, both_arms: tuple[Arm, Arm], conditions: Conditions
) -> TaskComparison:
    sides = (before, after)
    verdict = compare_verdict(_describe_side(before, both_arms[0]), _describe_side(after, both_arms[1]))
    why: str | None = None
    if verdict == "not comparable":
        why = conditions.modes or errors_between(before, after)
    elif both_arms[0].mode in PLAYED_MODES and not all(side.judged for side in sides):
        # Without a judged run on both sides a played task is neither changed nor unchanged.
        verdict, why = "not comparable", "one side has no judged run"
    elif verdict == "low power":
        why = f"fewer than {MIN_JUDGED} judged runs on a side: {before.judged}, {after.judged}"
    return TaskComparison(
        id=name,
        baseline=before,
        candidate=after,
        verdict=verdict,
        why=why,
        deltas=deltas_between(before, after, conditions),
    )


def _compare_suite(
    tasks: Sequence[TaskComparison], both: tuple[Counts, Counts], both_arms: tuple[Arm, Arm], conditions: Conditions
) -> TaskComparison:
    """Compare all tasks together. Among played recordings the suite has changed if one of its tasks has."""
    suite = _compare_task("", *both, both_arms, conditions)
    if not tasks:
        return attrs.evolve(suite, verdict="not comparable", why="no task is on both sides")
    if suite.verdict in ("unchanged", "changed"):
        return attrs.evolve(
            suite, verdict="changed" if any(task.verdict == "changed" for task in tasks) else "unchanged"
        )
    return suite


def _describe_side(counts: Counts, arm: Arm) -> SideCounts:
    return {
        "passes": counts.passes,
        "judged": counts.judged,
        "errored": counts.errored,
        "mode": arm.mode,
        "verifiers": (counts.verifiers, counts.budget_exceeded),
    }


def _find_differences(before: Mapping[str, Json], after: Mapping[str, Json]) -> Iterator[tuple[str, tuple[Json, Json]]]:
    for name in [*before, *(name for name in after if name not in before)]:
        values = _normalize_value(before.get(name)), _normalize_value(after.get(name))
        if name not in UNCOMPARED_CONDITIONS and values[0] != values[1]:
            yield name, (before.get(name), after.get(name))


def _normalize_value(value: Json) -> Json:
    """Normalize a condition: a JSON file has lists instead of tuples, and 1.0 where a row has 1."""
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {name: _normalize_value(inner) for name, inner in value.items()}
    return [_normalize_value(inner) for inner in value] if isinstance(value, list | tuple) else value
