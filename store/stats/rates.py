"""Rates of single cells and suites: how often, how surely, at what price.

What is undefined is None and never 0; a number that is missing or NaN where one is needed is a ValueError, because a
statistic must not make a failed measurement look like one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Literal

import attrs

from store.rows import Outcome

CONFIDENCE = 0.95
MIN_JUDGED = 5
"""Fewer judged runs than this have low power."""

Reliability = Literal["solved", "flaky", "unsolved"]
Interval = tuple[float, float]


@attrs.frozen(kw_only=True)
class Summary:
    """The outcomes of some runs, counted. Judged are `pass`, `fail` and `budget_exceeded`; only `pass` passes."""

    passes: int
    judged: int
    errored: int
    budget_exceeded: int
    skipped: int
    success_rate: float | None
    """Passes among the judged; None when none was judged."""
    wilson: Interval | None
    low_power: bool


def wilson_interval(passes: int, n: int, conf: float = CONFIDENCE) -> Interval | None:
    """Wilson's interval for a rate of *passes* among *n*; None for n = 0.

    Raises:
        ValueError: a count that is none, or more passes than runs.
    """
    _check_counts(n, passes)
    if not n:
        return None
    rate = passes / n
    square = _z(conf) ** 2
    middle = (rate + square / (2 * n)) / (1 + square / n)
    half = math.sqrt(square * (rate * (1 - rate) / n + square / (4 * n * n))) / (1 + square / n)
    # At the ends the bound is exact; computed, it would miss by rounding.
    return (middle - half if passes else 0.0, middle + half if passes < n else 1.0)


def summarize_outcomes(outcomes: Iterable[Outcome]) -> Summary:
    """Count outcomes; errored and skipped runs are in no rate.

    Raises:
        ValueError: a word that is no outcome.
    """
    counts: dict[str, int] = dict.fromkeys(("pass", "fail", "budget_exceeded", "error", "skipped"), 0)
    for outcome in outcomes:
        if outcome not in counts:
            raise ValueError(f"not an outcome: {outcome!r}")
        counts[outcome] += 1
    passes = counts["pass"]
    judged = passes + counts["fail"] + counts["budget_exceeded"]
    return Summary(
        passes=passes,
        judged=judged,
        errored=counts["error"],
        budget_exceeded=counts["budget_exceeded"],
        skipped=counts["skipped"],
        success_rate=success_rate(passes, judged),
        wilson=wilson_interval(passes, judged),
        low_power=low_power(judged),
    )


def success_rate(passes: int, judged: int) -> float | None:
    """Passes among the judged; None when none was judged.

    Raises:
        ValueError: a count that is none, or more passes than runs.
    """
    _check_counts(judged, passes)
    return passes / judged if judged else None


def low_power(judged: int) -> bool:
    """Whether so few judged runs say little."""
    return judged < MIN_JUDGED


def stable_fraction(outcomes_by_case: Iterable[Sequence[str]]) -> float | None:
    """Among the cases with at least two judged repetitions, those in which all ended alike; None if there are none."""
    repeated = [outcomes for outcomes in outcomes_by_case if len(outcomes) > 1]
    if not repeated:
        return None
    return sum(len(set(outcomes)) == 1 for outcomes in repeated) / len(repeated)


def reliability_class(n: int, c: int) -> Reliability | None:
    """`solved` if all *n* judged runs passed, `unsolved` if none, `flaky` in between; None for n = 0.

    Raises:
        ValueError: a count that is none, or more passes than runs.
    """
    _check_counts(n, c)
    if not n:
        return None
    if c == n:
        return "solved"
    return "flaky" if c else "unsolved"


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Estimate of the chance that of *k* fresh tries at least one passes, from *c* passes in *n*; None if k > n.

    Unbiased; at k = n it is the plain "at least one passed".

    Raises:
        ValueError: a count that is none, more passes than runs, or k < 1.
    """
    _check_draw(n, c, k)
    if k > n:
        return None
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """Estimate of the chance that *k* fresh tries all pass, from *c* passes in *n*; None if k > n.

    Unbiased; at k = n it is the plain "all passed".

    Raises:
        ValueError: a count that is none, more passes than runs, or k < 1.
    """
    _check_draw(n, c, k)
    if k > n:
        return None
    return math.comb(c, k) / math.comb(n, k)


def quantile7(xs: Sequence[float], q: float) -> float | None:
    """The *q* quantile with linear interpolation between neighbours; None for no values.

    Raises:
        ValueError: a value that is missing or NaN, or a *q* outside 0 to 1.
    """
    if not 0 <= q <= 1:
        raise ValueError(f"a quantile lies between 0 and 1, not at {q}")
    values = sorted(_numbers(xs))
    if not values:
        return None
    place = (len(values) - 1) * q
    below = math.floor(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def median(xs: Sequence[float]) -> float | None:
    """The middle value; None for no values.

    Raises:
        ValueError: a value that is missing or NaN.
    """
    return quantile7(xs, 0.5)


def variance(xs: Sequence[float]) -> float | None:
    """The sample variance (divided by n - 1); None for fewer than two values.

    Raises:
        ValueError: a value that is missing or NaN.
    """
    values = _numbers(xs)
    return float(statistics.variance(values)) if len(values) > 1 else None


def per_success(total: float, successes: int) -> float | None:
    """What one success cost, failures included; None without a success.

    Raises:
        ValueError: a total that is missing or NaN, or a negative count.
    """
    _check_counts(successes)
    (spent,) = _numbers([total])
    return spent / successes if successes else None


def cached_ratio(runs: Iterable[tuple[int | None, int | None, bool]]) -> float | None:
    """The share of input tokens that came from a cache, pooled over runs; None if no run reported it.

    *runs* are (cached tokens, input tokens, partial). Runs that did not report either number, or reported the cached
    ones only for some turns (partial), are left out of both sums.
    """
    cached_sum = input_sum = 0
    for cached, tokens, partial in runs:
        if cached is not None and tokens is not None and not partial:
            cached_sum += cached
            input_sum += tokens
    return cached_sum / input_sum if input_sum else None


@cache
def _z(conf: float) -> float:
    if not 0 < conf < 1:
        raise ValueError(f"a confidence lies between 0 and 1, not at {conf}")
    return statistics.NormalDist().inv_cdf(0.5 + conf / 2)


def _check_counts(n: int, passes: int = 0) -> None:
    """Counts may arrive from files; a NaN or a missing one is not 0."""
    for count in (n, passes):
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ValueError(f"not a count: {count!r}")
    if passes > n:
        raise ValueError(f"{passes} passes among {n} runs")


def _check_draw(n: int, c: int, k: int) -> None:
    _check_counts(n, c)
    _check_counts(k)
    if not k:
        raise ValueError("k counts from 1")


def _numbers(xs: Iterable[float | None]) -> list[float]:
    values: list[float] = []
    for x in xs:
        if x is None or math.isnan(x):
            raise ValueError("a value is missing")
        values.append(float(x))
    return values
