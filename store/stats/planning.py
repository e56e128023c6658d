"""Power analysis: the cases or repetitions needed to detect a difference. Estimates, as good as their input rates."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from operator import mul

import attrs

from store.stats.rates import CONFIDENCE, MIN_JUDGED, sample_variance, wilson_interval

TARGET_POWER = 0.8
ASSUMED_WITHIN_VARIANCE = 0.15
"""Assumed variance within a case, without any history."""
ASSUMED_EFFECT_VARIANCE = 0.02
"""Assumed variance of the true effect between cases, without any history."""
FEW_CASES = 10
"""Number of cases below which the t interval needs two more."""
MAX_REPETITIONS = 200
"""Largest number of repetitions that is planned."""
TOUCH_TOLERANCE = 1e-12


@attrs.frozen(kw_only=True)
class ScreenPower:
    """Probabilities that the screen claims a direction."""

    improved: float
    regressed: float


@attrs.frozen(kw_only=True)
class Variances:
    """Variance components of a difference over cases."""

    effect: float
    """Variance of the true effect between cases."""
    baseline: float
    """Variance within a case on the baseline side, mean over cases; `candidate` likewise."""
    candidate: float
    assumed: bool
    """True if the stored runs are too few and the usual variances stand in."""


def miller_n(delta: float, omega2: float, sA2: float, kA: float, sB2: float, kB: float) -> float:  # noqa: N803, PLR0917 - the formula's names and order
    """Number of cases (Miller's formula, not rounded) that detect a true mean difference *delta* with 80 % power.

    *omega2* is the variance of the true effect over cases, *sA2* and *sB2* the mean variance within a case, *kA* and
    *kB* the repetitions.

    Raises:
        ValueError: *delta* is 0 or NaN, a variance is negative, or a side has no repetitions.
    """
    if not delta or math.isnan(delta):
        raise ValueError("no number of cases can detect a difference of 0")
    return _required_noncentrality() ** 2 * _difference_variance(omega2, sA2, kA, sB2, kB) / delta**2


def miller_mde(n: float, omega2: float, sA2: float, kA: float, sB2: float, kB: float) -> float:  # noqa: N803, PLR0917 - the formula's names and order
    """Smallest true mean difference that *n* cases detect with 80 % power: the inverse of the formula above.

    Raises:
        ValueError: *n* is not positive, a variance is negative, or a side has no repetitions.
    """
    if not n > 0:
        raise ValueError("at least one case is needed")
    return _required_noncentrality() * math.sqrt(_difference_variance(omega2, sA2, kA, sB2, kB) / n)


def cases_needed(delta: float, variances: Variances, k: float) -> int:
    """Whole number of cases that detect *delta* with *k* repetitions a side; two more if they are few.

    Raises:
        ValueError: *delta* is 0 or NaN, or *k* is not positive.
    """
    n = math.ceil(miller_n(delta, variances.effect, variances.baseline, k, variances.candidate, k) - 1e-9)
    return n + 2 if n < FEW_CASES else max(n, 2)


def smallest_difference(variances: Variances, cases: int, k_baseline: float, k_candidate: float) -> float | None:
    """Smallest true difference that these cases and repetitions detect; None if the cases are too few for any.

    Raises:
        ValueError: a side has no repetitions.
    """
    worth = _effective_cases(cases)
    if worth <= 0:
        return None
    return miller_mde(worth, variances.effect, variances.baseline, k_baseline, variances.candidate, k_candidate)


def repetitions_needed(delta: float, variances: Variances, cases: int) -> int | None:
    """Repetitions a side with which *cases* cases detect *delta*; None if no number would, only more cases.

    Raises:
        ValueError: *delta* is 0 or NaN.
    """
    if not delta or math.isnan(delta):
        raise ValueError("no number of repetitions can detect a difference of 0")
    room = _effective_cases(cases) * delta**2 / _required_noncentrality() ** 2 - variances.effect
    if room <= 0:
        return None
    return max(1, math.ceil((variances.baseline + variances.candidate) / room - 1e-9))


def estimate_variances(
    diffs: Sequence[float], a_by_case: Sequence[tuple[int, int]], b_by_case: Sequence[tuple[int, int]]
) -> Variances:
    """Estimate the variance components from stored runs.

    *diffs* holds the difference of each case; *a_by_case* and *b_by_case* its (passes, judged), with judged > 0.
    With fewer than two cases, or no case with two repetitions a side, returns the usual variances as `assumed`.

    Raises:
        ValueError: a difference is missing or NaN.
    """
    spread = sample_variance(diffs)
    within = _mean_within_variance(a_by_case), _mean_within_variance(b_by_case)
    if spread is None or within[0] is None or within[1] is None:
        return Variances(
            effect=ASSUMED_EFFECT_VARIANCE,
            baseline=ASSUMED_WITHIN_VARIANCE,
            candidate=ASSUMED_WITHIN_VARIANCE,
            assumed=True,
        )
    sampling = _mean_sampling_variance(within[0], a_by_case) + _mean_sampling_variance(within[1], b_by_case)
    return Variances(effect=max(0.0, spread - sampling), baseline=within[0], candidate=within[1], assumed=False)


def screen_power(pa: float, pb: float, k: int) -> ScreenPower:
    """Exact probabilities of `improved` and `regressed` from *k* judged runs a side, at pass rates *pa* and *pb*.

    Raises:
        ValueError: a rate is outside 0 to 1.
    """
    if k < MIN_JUDGED:
        _binomial_probabilities(pa, 1), _binomial_probabilities(pb, 1)
        return ScreenPower(improved=0.0, regressed=0.0)
    return ScreenPower(
        improved=_win_probability(_binomial_probabilities(pa, k), _binomial_tails(pb, k), _passes_to_win(k)),
        regressed=_win_probability(_binomial_probabilities(pb, k), _binomial_tails(pa, k), _passes_to_win(k)),
    )


@cache
def screen_min_k(pa: float, pb: float, power: float = TARGET_POWER, max_k: int = MAX_REPETITIONS) -> int | None:
    """Fewest judged runs a side with which the screen detects the difference with this power.

    None if the rates are equal, or more than *max_k* would be needed.

    Raises:
        ValueError: a rate is outside 0 to 1.
    """
    _binomial_probabilities(pa, 1), _binomial_probabilities(pb, 1)
    low, high = sorted((pa, pb))
    if low == high:
        return None
    for k in range(MIN_JUDGED, max_k + 1):
        if _win_probability(_binomial_probabilities(low, k), _binomial_tails(high, k), _passes_to_win(k)) >= power:
            return k
    return None


def _effective_cases(cases: int) -> int:
    """Effective number of cases: the t interval costs two of a few, as in `cases_needed`."""
    return cases - 2 if cases < FEW_CASES + 2 else cases


def _required_noncentrality() -> float:
    normal = statistics.NormalDist()
    return normal.inv_cdf(0.5 + CONFIDENCE / 2) + normal.inv_cdf(TARGET_POWER)


def _difference_variance(omega2: float, a2: float, ka: float, b2: float, kb: float) -> float:
    if not (min(omega2, a2, b2) >= 0 and ka > 0 and kb > 0):
        raise ValueError("variances are at least 0, and repetitions more")
    return omega2 + a2 / ka + b2 / kb


def _mean_within_variance(by_case: Sequence[tuple[int, int]]) -> float | None:
    variances = [passes * (n - passes) / (n * (n - 1)) for passes, n in by_case if n > 1]
    return math.fsum(variances) / len(variances) if variances else None


def _mean_sampling_variance(within: float, by_case: Sequence[tuple[int, int]]) -> float:
    """Sampling variance of the mean of a case's repetitions, mean over cases."""
    return within * math.fsum(1 / n for _, n in by_case) / len(by_case)


@cache
def _passes_to_win(k: int) -> tuple[int, ...]:
    """For each number of passes in *k* runs, the fewest passes that count as better than it; k + 1 if none do."""
    intervals = [wilson_interval(passes, k) for passes in range(k + 1)]
    needed = []
    better = 0
    for own in intervals:
        assert own is not None
        while better <= k:
            other = intervals[better]
            assert other is not None
            if other[0] - own[1] > TOUCH_TOLERANCE:
                break
            better += 1
        needed.append(better)
    return tuple(needed)


def _win_probability(worse: Sequence[float], better: Sequence[float], needed: Sequence[int]) -> float:
    """Probability that the better side passes often enough; *better* holds tail probabilities."""
    return float(sum(map(mul, worse, map(better.__getitem__, needed))))


@cache
def _binomial_probabilities(p: float, n: int) -> tuple[float, ...]:
    """Probabilities of exactly 0 to *n* passes."""
    if not 0 <= p <= 1:
        raise ValueError(f"a rate lies between 0 and 1, not at {p}")
    if p in (0, 1):
        return tuple(float(passes == n * p) for passes in range(n + 1))
    log_p, log_q = math.log(p), math.log1p(-p)
    return tuple(
        math.exp(log_count + passes * log_p + (n - passes) * log_q)
        for passes, log_count in enumerate(_log_binomials(n))
    )


@cache
def _binomial_tails(p: float, n: int) -> tuple[float, ...]:
    """Probabilities of at least 0 to *n* + 1 passes (tails)."""
    tails = list(accumulate(reversed(_binomial_probabilities(p, n)), initial=0.0))
    return tuple(reversed(tails))


@cache
def _log_binomials(n: int) -> tuple[float, ...]:
    whole = math.lgamma(n + 1)
    return tuple(whole - math.lgamma(passes + 1) - math.lgamma(n - passes + 1) for passes in range(n + 1))
