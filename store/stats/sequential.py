"""Sequential comparison: the screen, read after every repetition, with a stopping rule for early verdicts."""

from __future__ import annotations

import math
import statistics
from functools import cache

import attrs

from store.stats.compare import TOUCH_TOLERANCE, ComparisonVerdict, compare_verdict
from store.stats.rates import MIN_JUDGED, Interval, wilson_interval

FUTILITY_LEVEL = 0.80
"""Confidence level of the most favourable future that the stopping rule still considers."""


@attrs.frozen(kw_only=True)
class SequentialPower:
    """Probabilities that the sequential screen claims a direction, and its mean length."""

    improved: float
    regressed: float
    mean_k: float
    """Mean number of judged runs a side at the stop."""


def screen_conf(k_max: int) -> float:
    """Confidence level at which the screen may be read after every repetition up to *k_max*.

    Raises:
        ValueError: *k_max* is above 200, where this rule does not hold.
    """
    if k_max > 200:
        raise ValueError("the screen is read after every repetition up to 200 of them")
    return 0.95 if k_max <= 60 else 0.96


def screen_step(
    xa: int, xb: int, n: int, k_max: int, futility: float | None = FUTILITY_LEVEL
) -> ComparisonVerdict | None:
    """Decide after *n* judged runs on each side, of which *xa* and *xb* passed: a verdict, or None to continue.

    Raises:
        ValueError: an invalid count, more passes than runs, or more runs than *k_max*.
    """
    if n > k_max:
        raise ValueError(f"{n} runs are more than the {k_max} planned")
    for passes in (xa, xb):
        wilson_interval(passes, n)  # refuses an invalid count
    if n < MIN_JUDGED:
        return None
    conf = screen_conf(k_max)
    verdict = compare_verdict(
        {"passes": xa, "judged": n, "errored": 0, "mode": "live"},
        {"passes": xb, "judged": n, "errored": 0, "mode": "live"},
        conf,
    )
    if verdict != "inconclusive" or n == k_max:
        return verdict
    if futility is None:
        return None
    for low, high in ((xa, xb), (xb, xa)):
        if _can_separate(low, high, n, k_max=k_max, conf=conf, futility=futility):
            return None
    return "inconclusive"


def screen_seq_power(pa: float, pb: float, k_max: int, futility: float | None = FUTILITY_LEVEL) -> SequentialPower:
    """Exact probabilities of `improved` and `regressed` of the sequential screen at pass rates *pa* and *pb*.

    Raises:
        ValueError: a rate is outside 0 to 1, or *k_max* is above 200.
    """
    if not (0 <= pa <= 1 and 0 <= pb <= 1):
        raise ValueError("a rate lies between 0 and 1")
    chances = {"improved": 0.0, "regressed": 0.0, "inconclusive": 0.0}
    mean = 0.0
    going = {(0, 0): 1.0}
    steps = [((a, b), (pa if a else 1 - pa) * (pb if b else 1 - pb)) for a in (0, 1) for b in (0, 1)]
    for n in range(1, k_max + 1):
        after: dict[tuple[int, int], float] = {}
        for (xa, xb), chance in going.items():
            for (a, b), step in steps:
                if step:
                    state = xa + a, xb + b
                    after[state] = after.get(state, 0.0) + chance * step
        going = {}
        for (xa, xb), chance in after.items():
            verdict = screen_step(xa, xb, n, k_max, futility)
            if verdict is None:
                going[xa, xb] = chance
            else:
                chances[verdict] = chances.get(verdict, 0.0) + chance
                mean += n * chance
    return SequentialPower(improved=chances["improved"], regressed=chances["regressed"], mean_k=mean)


def _can_separate(low: int, high: int, n: int, *, k_max: int, conf: float, futility: float) -> bool:
    """Return whether the side with *high* passes can still end above the other, in its most favourable future."""
    left = k_max - n
    best, worst = _wilson_limits(high, n, futility)[1], _wilson_limits(low, n, futility)[0]
    above, below = (
        _wilson_fractional(high + left * best, k_max, conf),
        _wilson_fractional(low + left * worst, k_max, conf),
    )
    return above[0] - below[1] > TOUCH_TOLERANCE


def _wilson_limits(passes: int, n: int, conf: float) -> Interval:
    interval = wilson_interval(passes, n, conf)
    assert interval is not None
    return interval


def _wilson_fractional(passes: float, n: int, conf: float) -> Interval:
    """Wilson interval for a number of passes that may be fractional."""
    z = _normal_quantile(conf)
    rate, square = passes / n, z * z
    middle = (rate + square / (2 * n)) / (1 + square / n)
    half = z / (1 + square / n) * math.sqrt(max(rate * (1 - rate) / n + square / (4 * n * n), 0.0))
    return middle - half, middle + half


@cache
def _normal_quantile(conf: float) -> float:
    return statistics.NormalDist().inv_cdf(0.5 + conf / 2)
