"""Further statistics of a comparison (Newcombe, Fisher, Holm, paired t). They change no verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from orchestrator.comparison.arm import Counts
from orchestrator.comparison.model import (
    CaseDetail,
    Clustering,
    Comparison,
    PairedOutcomes,
    SampleSize,
    SuiteDetail,
    TaskComparison,
)
from store.stats import compare, paired, planning
from store.stats.compare import ComparisonVerdict

TESTED: frozenset[ComparisonVerdict] = frozenset({"improved", "regressed", "inconclusive"})
"""Verdicts of tasks with enough runs for a Fisher test."""
SIGNIFICANCE_LEVEL = 0.05


def add_detail(comparison: Comparison) -> Comparison:
    """Return the comparison with its `CaseDetail` and `SuiteDetail`."""
    tested = [task for task in comparison.tasks if task.verdict in TESTED]
    ps = [_fisher_p(task.baseline, task.candidate) for task in tested]
    adjusted = dict(zip((task.id for task in tested), zip(ps, compare.holm(ps), strict=True), strict=True))
    tasks = tuple(attrs.evolve(task, detail=_detail_case(task, adjusted.get(task.id))) for task in comparison.tasks)
    return attrs.evolve(comparison, tasks=tasks, detail=_detail_suite(tasks))


def _fisher_p(before: Counts, after: Counts) -> float:
    return compare.fisher_exact(before.passes, before.judged, after.passes, after.judged)


def _detail_case(task: TaskComparison, ps: tuple[float, float] | None) -> CaseDetail:
    before, after = task.baseline, task.candidate
    rates = before.success_rate, after.success_rate
    comparable = task.verdict != "not comparable"
    needed = None
    if comparable and rates[0] is not None and rates[1] is not None:
        needed = planning.screen_min_k(rates[0], rates[1])
    return CaseDetail(
        newcombe=compare.newcombe_diff(after.passes, after.judged, before.passes, before.judged)
        if comparable
        else None,
        fisher_p=ps[0] if ps else None,
        holm_p=ps[1] if ps else None,
        repetitions_needed=needed,
    )


def _detail_suite(tasks: Sequence[TaskComparison]) -> SuiteDetail:
    judged = [task for task in tasks if task.baseline.judged and task.candidate.judged]
    before, after = [task.baseline for task in judged], [task.candidate for task in judged]
    diffs = [_pass_rate(b) - _pass_rate(a) for a, b in zip(before, after, strict=True)]
    like_these = paired.paired_t(diffs)
    adjusted = [task.detail.holm_p for task in tasks if task.detail is not None and task.detail.holm_p is not None]
    return SuiteDetail(
        cases=len(judged),
        left_out=tuple(task.id for task in tasks if not (task.baseline.judged and task.candidate.judged)),
        like_these=like_these,
        verdict=paired.suite_verdict(like_these),
        sign_flip_p=paired.signflip_p(diffs) if 0 < len(diffs) < paired.MIN_UNCHECKED_CASES else None,
        these=paired.fixed_suite_diff([_run_scores(side) for side in before], [_run_scores(side) for side in after]),
        baseline=_estimate_clustering(before),
        candidate=_estimate_clustering(after),
        outcomes=_pair_outcomes(before, after),
        needed=_plan_repetitions(diffs, before, after),
        tests=len(adjusted),
        survivors=sum(p < SIGNIFICANCE_LEVEL for p in adjusted),
    )


def _pass_rate(counts: Counts) -> float:
    return counts.passes / counts.judged


def _run_scores(counts: Counts) -> list[float]:
    """List a score per judged run, 1 for a pass and 0 otherwise, in no particular order."""
    return [1.0] * counts.passes + [0.0] * (counts.judged - counts.passes)


def _estimate_clustering(sides: Sequence[Counts]) -> Clustering | None:
    if not sides:
        return None
    groups = [_run_scores(side) for side in sides]
    judged = sum(map(len, groups))
    icc = paired.icc1(groups)
    return Clustering(
        success_rate=sum(side.passes for side in sides) / judged,
        se=paired.se_clustered(groups),
        icc=icc,
        design_effect=None if icc is None else paired.design_effect(judged / len(groups), icc),
    )


def _pair_outcomes(before: Sequence[Counts], after: Sequence[Counts]) -> PairedOutcomes | None:
    if not before or any(side.judged != 1 for side in (*before, *after)):
        return None
    pairs = [(a.passes, b.passes) for a, b in zip(before, after, strict=True)]
    both, only_after, only_before, neither = (pairs.count(pair) for pair in ((1, 1), (0, 1), (1, 0), (0, 0)))
    return PairedOutcomes(
        both=both,
        only_candidate=only_after,
        only_baseline=only_before,
        neither=neither,
        newcombe=compare.newcombe_paired(both, only_after, only_before, neither),
        mcnemar_p=compare.mcnemar_exact(only_after, only_before),
    )


def _plan_repetitions(diffs: Sequence[float], before: Sequence[Counts], after: Sequence[Counts]) -> SampleSize | None:
    cases = len(diffs)
    if cases < 2:
        return None
    variances = planning.estimate_variances(
        diffs, [(side.passes, side.judged) for side in before], [(side.passes, side.judged) for side in after]
    )
    k = [cases / math.fsum(1 / side.judged for side in sides) for sides in (before, after)]
    delta = math.fsum(diffs) / cases
    has_difference = abs(delta) > paired.SAME_TOLERANCE
    within = variances.baseline / k[0] + variances.candidate / k[1]
    return SampleSize(
        variances=variances,
        smallest=planning.smallest_difference(variances, cases, *k),
        cases=planning.cases_needed(delta, variances, min(k)) if has_difference else None,
        repetitions=planning.repetitions_needed(delta, variances, cases) if has_difference else None,
        buy_cases=within < variances.effect,
    )
