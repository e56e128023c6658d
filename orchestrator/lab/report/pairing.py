"""Targets on identical cases: each against the first, fixture by fixture."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from orchestrator.lab.report.model import LabFacts, TargetComparison
from orchestrator.lab.report.run import LabRun
from store.stats import paired

COUNTED_OUTCOMES = frozenset({"pass", "fail", "budget_exceeded"})
"""A run that ended in an infrastructure failure says nothing about how well its target decides."""

Rates = Mapping[str, float]
"""By fixture: the share of passes among the runs that count."""


def compare_targets(facts: LabFacts, runs: Iterable[LabRun]) -> tuple[TargetComparison, ...]:
    """Every declared target against the first of those that have runs, capability by capability and over all."""
    by_target: dict[str, dict[str, list[LabRun]]] = {}
    for run in runs:
        by_target.setdefault(run.target, {}).setdefault(run.capability, []).append(run)
    present = [target.id for target in facts.targets if target.id in by_target]
    return tuple(
        found
        for candidate in present[1:]
        for found in _pair_cases(facts, (present[0], by_target[present[0]]), (candidate, by_target[candidate]))
    )


def _pair_cases(
    facts: LabFacts, baseline: tuple[str, Mapping[str, list[LabRun]]], candidate: tuple[str, Mapping[str, list[LabRun]]]
) -> Iterator[TargetComparison]:
    (first, before), (second, after) = baseline, candidate
    shared = sorted(before.keys() & after.keys())
    sides = [{name: _measure_case_rates(side[name]) for name in shared} for side in (before, after)]
    if len(shared) > 1:
        for name in shared:
            yield _compare_pair(facts, name, (first, second), sides[0][name], sides[1][name])
    together = [{case: rate for by in side.values() for case, rate in by.items()} for side in sides]
    if shared:
        only = shared[0] if len(shared) == 1 else None
        yield _compare_pair(facts, only, (first, second), together[0], together[1])


def _measure_case_rates(runs: Sequence[LabRun]) -> Rates:
    outcomes: dict[str, list[bool]] = {}
    for run in runs:
        own = outcomes.setdefault(run.case, [])
        if run.judged and run.outcome in COUNTED_OUTCOMES:
            own.append(run.outcome == "pass")
    return {case: sum(own) / len(own) if own else math.nan for case, own in outcomes.items()}


def _compare_pair(
    facts: LabFacts, capability: str | None, names: tuple[str, str], before: Rates, after: Rates
) -> TargetComparison:
    every = {*before, *after}
    cases = sorted(
        case
        for case in every
        if not math.isnan(before.get(case, math.nan)) and not math.isnan(after.get(case, math.nan))
    )
    diffs = [after[case] - before[case] for case in cases]
    like_these = paired.paired_t(diffs) if facts.sampled else None
    return TargetComparison(
        capability=capability,
        baseline=names[0],
        candidate=names[1],
        cases=len(cases),
        left_out=len(every) - len(cases),
        like_these=like_these,
        verdict=paired.suite_verdict(like_these) if facts.sampled else None,
        signflip_p=paired.signflip_p(diffs) if facts.sampled and 0 < len(diffs) < paired.MIN_UNCHECKED_CASES else None,
        differing=tuple(case for case, diff in zip(cases, diffs, strict=True) if abs(diff) > paired.SAME_TOLERANCE),
    )
