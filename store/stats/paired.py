"""Paired differences over the cases of a suite. The unit is the case: its repetitions are not independent.

Each interval answers one of two questions. *Cases like these*: the cases are a sample of a larger population (paired t,
sign flips, clustered standard error, cluster bootstrap). *These cases*: only the repetitions are random (fixed suite
difference). Differences are candidate minus baseline.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Sequence
from typing import Literal

import attrs

from store.stats.rates import CONFIDENCE, Interval, quantile7, sample_variance
from store.stats.student import t_quantile, t_two_sided

MIN_CASES = 5
"""Fewer cases than this have low power."""
EXACT_CASES = 16
"""Largest number of non-zero differences for which all sign flips are enumerated."""
SIGN_FLIP_DRAWS = 20_000
MIN_UNCHECKED_CASES = 20
"""Number of cases from which on the t interval needs no check by sign flips."""
SAME_TOLERANCE = 1e-12
"""Tolerance within which two differences are equal."""

SuiteVerdict = Literal["improved", "regressed", "inconclusive", "low power"]


@attrs.frozen(kw_only=True)
class PairedT:
    """Paired t: the mean difference over cases with its t interval. About cases like these."""

    diff: float
    se: float
    df: int
    ci: Interval
    p: float | None
    """Two-sided p; None if every case moved by the same amount, where t is undefined: use sign flips instead."""


@attrs.frozen(kw_only=True)
class FixedDiff:
    """Fixed suite difference: the mean difference over exactly these cases with its z interval."""

    diff: float
    se: float
    ci: Interval


def paired_t(diffs: Sequence[float]) -> PairedT | None:
    """Paired t: the mean of the differences (one per case) and its 95 % t interval; None below two cases.

    Raises:
        ValueError: a difference is missing or NaN.
    """
    spread = sample_variance(diffs)
    if spread is None:
        return None
    n = len(diffs)
    mean = math.fsum(diffs) / n
    if max(diffs) - min(diffs) <= SAME_TOLERANCE:
        return PairedT(diff=mean, se=0.0, df=n - 1, ci=(mean, mean), p=1.0 if abs(mean) <= SAME_TOLERANCE else None)
    se = math.sqrt(spread / n)
    half = t_quantile(0.5 + CONFIDENCE / 2, n - 1) * se
    return PairedT(diff=mean, se=se, df=n - 1, ci=(mean - half, mean + half), p=t_two_sided(mean / se, n - 1))


def suite_verdict(test: PairedT | None) -> SuiteVerdict:
    """Give the verdict of a paired difference on cases like these; `low power` below five cases."""
    if test is None or test.df + 1 < MIN_CASES:
        return "low power"
    if test.ci[0] > SAME_TOLERANCE:
        return "improved"
    return "regressed" if test.ci[1] < -SAME_TOLERANCE else "inconclusive"


def fixed_suite_diff(a_by_case: Sequence[Sequence[float]], b_by_case: Sequence[Sequence[float]]) -> FixedDiff | None:
    """Fixed suite difference: the mean over these cases, from the scores of the repetitions on both sides.

    None without cases, or if a case has fewer than two repetitions on a side.

    Raises:
        ValueError: the sides differ in their number of cases, or a score is missing or NaN.
    """
    total = spread = 0.0
    for a, b in zip(a_by_case, b_by_case, strict=True):
        if min(len(_check_values(a)), len(_check_values(b))) < 2:
            return None
        means = math.fsum(a) / len(a), math.fsum(b) / len(b)
        total += means[1] - means[0]
        for values, mean in ((a, means[0]), (b, means[1])):
            spread += math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)
    cases = len(a_by_case)
    if not cases:
        return None
    diff, se = total / cases, math.sqrt(spread) / cases
    half = statistics.NormalDist().inv_cdf(0.5 + CONFIDENCE / 2) * se
    return FixedDiff(diff=diff, se=se, ci=(diff - half, diff + half))


def se_clt(values: Sequence[float]) -> float | None:
    """Standard error of the mean of independent values; None below two values.

    Raises:
        ValueError: a value is missing or NaN.
    """
    spread = sample_variance(values)
    return None if spread is None else math.sqrt(spread / len(values))


def se_clustered(groups: Sequence[Sequence[float]]) -> float | None:
    """Clustered standard error of the mean over all values in groups (repetitions of a case); None below two groups.

    Raises:
        ValueError: a value is missing or NaN.
    """
    filled = _drop_empty_groups(groups)
    if len(filled) < 2:
        return None
    n = sum(map(len, filled))
    mean = math.fsum(itertools.chain.from_iterable(filled)) / n
    strayed = math.fsum(math.fsum(value - mean for value in group) ** 2 for group in filled)
    return math.sqrt(len(filled) / (len(filled) - 1) * strayed) / n


def icc1(groups: Sequence[Sequence[float]]) -> float | None:
    """Intraclass correlation ICC(1), by one-way analysis of variance: the similarity of values within a group.

    May be negative. None below two groups, if no group has a repetition, and if all values are equal.

    Raises:
        ValueError: a value is missing or NaN.
    """
    filled = _drop_empty_groups(groups)
    n = sum(map(len, filled))
    if len(filled) < 2 or n == len(filled):
        return None
    mean = math.fsum(itertools.chain.from_iterable(filled)) / n
    means = [math.fsum(group) / len(group) for group in filled]
    sizes = [len(group) for group in filled]
    between = math.fsum(size * (own - mean) ** 2 for size, own in zip(sizes, means, strict=True)) / (len(filled) - 1)
    inside = math.fsum((value - own) ** 2 for group, own in zip(filled, means, strict=True) for value in group)
    within = inside / (n - len(filled))
    usual = (n - sum(size * size for size in sizes) / n) / (len(filled) - 1)
    whole = between + (usual - 1) * within
    return (between - within) / whole if whole else None


def design_effect(m: float, icc: float) -> float:
    """Design effect: the factor by which *m* repetitions per case widen a pooled rate's variance (*icc* at least 0)."""
    return 1 + (m - 1) * max(icc, 0.0)


def signflip_p(diffs: Sequence[float], seed: int = 0) -> float:
    """Two-sided p of the mean difference by random sign flips (permutation test); 1.0 if all differences are zero.

    Exact up to 16 non-zero differences, else from 20,000 draws. Below six it cannot reach 0.05.

    Raises:
        ValueError: a difference is missing or NaN.
    """
    moved = [diff for diff in _check_values(diffs) if abs(diff) > SAME_TOLERANCE]
    if not moved:
        return 1.0
    observed = abs(math.fsum(moved)) - SAME_TOLERANCE * len(moved)
    if len(moved) <= EXACT_CASES:
        sums = [0.0]
        for diff in moved:
            sums = [total + step for step in (diff, -diff) for total in sums]
        return sum(abs(total) >= observed for total in sums) / len(sums)
    rng = random.Random(seed)  # noqa: S311 - statistics, and the same every time
    whole = math.fsum(moved)
    hits = 0
    for _ in range(SIGN_FLIP_DRAWS):
        bits = rng.getrandbits(len(moved))
        flipped = sum(diff for place, diff in enumerate(moved) if bits >> place & 1)
        hits += abs(whole - 2 * flipped) >= observed
    return (hits + 1) / (SIGN_FLIP_DRAWS + 1)


def cluster_bootstrap(diffs: Sequence[float], draws: int = 4000, seed: int = 0) -> Interval | None:
    """Cluster bootstrap: the 95 % percentile interval of the mean over resampled cases; None without any.

    For illustration, not for verdicts.

    Raises:
        ValueError: a difference is missing or NaN.
    """
    if not _check_values(diffs):
        return None
    rng = random.Random(seed)  # noqa: S311 - statistics, and the same every time
    means = [math.fsum(rng.choices(diffs, k=len(diffs))) / len(diffs) for _ in range(draws)]
    low, high = quantile7(means, 0.5 - CONFIDENCE / 2), quantile7(means, 0.5 + CONFIDENCE / 2)
    assert low is not None
    assert high is not None
    return low, high


def _drop_empty_groups(groups: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    return [_check_values(group) for group in groups if group]


def _check_values(values: Sequence[float]) -> Sequence[float]:
    for value in values:
        if value is None or math.isnan(value):
            raise ValueError("a value is missing")
    return values
