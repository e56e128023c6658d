"""Paired comparisons of targets on identical cases: each target against the first, case by case."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from orchestrator.lab.report.model import LabFacts, TargetComparison
from orchestrator.lab.report.run import LabRun
from store.stats import paired

COUNTED_OUTCOMES = frozenset({"pass", "fail", "budget_exceeded"})
"""Outcomes that a comparison counts; an infrastructure failure says nothing about the target's decisions."""

Rates = Mapping[str, float]
"""By case id, the share of passes among the counted runs; NaN without one."""


def compare_targets(facts: LabFacts, runs: Iterable[LabRun]) -> tuple[TargetComparison, ...]:
    """Compare every declared target with the first one that has runs, per capability and over all."""
    by_target: dict[str, dict[str, list[LabRun]]] = {}
    for run in runs:
        by_target.setdefault(run.target, {}).setdefault(run.capability, []).append(run)
    present = [target.id for target in facts.targets if target.id in by_target]
    return tuple(
        comparison
        for candidate in present[1:]
        for comparison in _pair_cases(facts, (present[0], by_target[present[0]]), (candidate, by_target[candidate]))
    )


def _pair_cases(
    facts: LabFacts, baseline: tuple[str, Mapping[str, list[LabRun]]], candidate: tuple[str, Mapping[str, list[LabRun]]]
) -> Iterator[TargetComparison]:
    (baseline_id, before), (candidate_id, after) = baseline, candidate
    ids = (baseline_id, candidate_id)
    shared = sorted(before.keys() & after.keys())
    sides = [{name: _measure_case_rates(side[name]) for name in shared} for side in (before, after)]
    if len(shared) > 1:
        for name in shared:
            yield _compare_pair(facts, name, ids, sides[0][name], sides[1][name])
    together = [{case: rate for rates in side.values() for case, rate in rates.items()} for side in sides]
    if shared:
        capability = shared[0] if len(shared) == 1 else None
        yield _compare_pair(facts, capability, ids, together[0], together[1])


def _measure_case_rates(runs: Sequence[LabRun]) -> Rates:
    outcomes: dict[str, list[bool]] = {}
    for run in runs:
        passes = outcomes.setdefault(run.case, [])
        if run.judged and run.outcome in COUNTED_OUTCOMES:
            passes.append(run.outcome == "pass")
    return {case: sum(passes) / len(passes) if passes else math.nan for case, passes in outcomes.items()}


def _compare_pair(
    facts: LabFacts, capability: str | None, names: tuple[str, str], before: Rates, after: Rates
) -> TargetComparison:
    all_cases = {*before, *after}
    cases = sorted(
        case
        for case in all_cases
        if not math.isnan(before.get(case, math.nan)) and not math.isnan(after.get(case, math.nan))
    )
    diffs = [after[case] - before[case] for case in cases]
    like_these = paired.paired_t(diffs) if facts.sampled else None
    return TargetComparison(
        capability=capability,
        baseline=names[0],
        candidate=names[1],
        cases=len(cases),
        left_out=len(all_cases) - len(cases),
        like_these=like_these,
        verdict=paired.suite_verdict(like_these) if facts.sampled else None,
        signflip_p=paired.signflip_p(diffs) if facts.sampled and 0 < len(diffs) < paired.MIN_UNCHECKED_CASES else None,
        differing=tuple(case for case, diff in zip(cases, diffs, strict=True) if abs(diff) > paired.SAME_TOLERANCE),
    )
