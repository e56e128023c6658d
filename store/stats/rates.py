"""Rates of cells and suites: success rates with Wilson intervals, pass@k, quantiles and cost per success.

An undefined result is None, never 0. A missing or NaN input is a ValueError, because a statistic must not make a failed
measurement look like a valid one.
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
"""Number of judged runs below which a rate has low power."""

ReliabilityClass = Literal["solved", "flaky", "unsolved"]
Interval = tuple[float, float]


@attrs.frozen(kw_only=True)
class OutcomeSummary:
    """Counts of run outcomes. `pass`, `fail` and `budget_exceeded` are judged; only `pass` passes."""

    passes: int
    judged: int
    errored: int
    budget_exceeded: int
    skipped: int
    success_rate: float | None
    """Passes / judged; None if no run was judged."""
    wilson: Interval | None
    low_power: bool


def wilson_interval(passes: int, n: int, conf: float = CONFIDENCE) -> Interval | None:
    """Wilson score interval for a rate of *passes* among *n*; None for n = 0.

    Raises:
        ValueError: an invalid count, or more passes than runs.
    """
    _check_counts(n, passes)
    if not n:
        return None
    rate = passes / n
    square = _normal_quantile(conf) ** 2
    middle = (rate + square / (2 * n)) / (1 + square / n)
    half = math.sqrt(square * (rate * (1 - rate) / n + square / (4 * n * n))) / (1 + square / n)
    # The bounds at 0 and 1 are exact; computing them would add a rounding error.
    return (middle - half if passes else 0.0, middle + half if passes < n else 1.0)


def summarize_outcomes(outcomes: Iterable[Outcome]) -> OutcomeSummary:
    """Count outcomes; errored and skipped runs do not count in any rate.

    Raises:
        ValueError: a word is not an outcome.
    """
    counts: dict[str, int] = dict.fromkeys(("pass", "fail", "budget_exceeded", "error", "skipped"), 0)
    for outcome in outcomes:
        if outcome not in counts:
            raise ValueError(f"not an outcome: {outcome!r}")
        counts[outcome] += 1
    passes = counts["pass"]
    judged = passes + counts["fail"] + counts["budget_exceeded"]
    return OutcomeSummary(
        passes=passes,
        judged=judged,
        errored=counts["error"],
        budget_exceeded=counts["budget_exceeded"],
        skipped=counts["skipped"],
        success_rate=success_rate(passes, judged),
        wilson=wilson_interval(passes, judged),
        low_power=has_low_power(judged),
    )


def success_rate(passes: int, judged: int) -> float | None:
    """Passes / judged; None if no run was judged.

    Raises:
        ValueError: an invalid count, or more passes than runs.
    """
    _check_counts(judged, passes)
    return passes / judged if judged else None


def has_low_power(judged: int) -> bool:
    """Return whether there are too few judged runs for a verdict."""
    return judged < MIN_JUDGED


def stable_fraction(outcomes_by_case: Iterable[Sequence[str]]) -> float | None:
    """Share of the cases with at least two judged repetitions whose outcomes all agree; None without such a case."""
    repeated = [outcomes for outcomes in outcomes_by_case if len(outcomes) > 1]
    if not repeated:
        return None
    return sum(len(set(outcomes)) == 1 for outcomes in repeated) / len(repeated)


def reliability_class(n: int, c: int) -> ReliabilityClass | None:
    """Classify a case: `solved` if all *n* judged runs passed, `unsolved` if none, else `flaky`; None for n = 0.

    Raises:
        ValueError: an invalid count, or more passes than runs.
    """
    _check_counts(n, c)
    if not n:
        return None
    if c == n:
        return "solved"
    return "flaky" if c else "unsolved"


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """pass@k: estimated probability that at least one of *k* new runs passes, from *c* passes in *n*; None if k > n.

    Unbiased; at k = n it is 1 if any run passed, else 0.

    Raises:
        ValueError: an invalid count, more passes than runs, or k < 1.
    """
    _check_draw(n, c, k)
    if k > n:
        return None
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """pass^k: estimated probability that *k* new runs all pass, from *c* passes in *n*; None if k > n.

    Unbiased; at k = n it is 1 if all runs passed, else 0.

    Raises:
        ValueError: an invalid count, more passes than runs, or k < 1.
    """
    _check_draw(n, c, k)
    if k > n:
        return None
    return math.comb(c, k) / math.comb(n, k)


def quantile7(xs: Sequence[float], q: float) -> float | None:
    """Sample quantile *q* by linear interpolation (type 7); None without values.

    Raises:
        ValueError: a value is missing or NaN, or *q* is outside 0 to 1.
    """
    if not 0 <= q <= 1:
        raise ValueError(f"a quantile lies between 0 and 1, not at {q}")
    values = sorted(_check_numbers(xs))
    if not values:
        return None
    place = (len(values) - 1) * q
    below = math.floor(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def sample_median(xs: Sequence[float]) -> float | None:
    """Sample median; None without values.

    Raises:
        ValueError: a value is missing or NaN.
    """
    return quantile7(xs, 0.5)


def sample_variance(xs: Sequence[float]) -> float | None:
    """Sample variance (divisor n - 1); None for fewer than two values.

    Raises:
        ValueError: a value is missing or NaN.
    """
    values = _check_numbers(xs)
    return float(statistics.variance(values)) if len(values) > 1 else None


def per_success(total: float, successes: int) -> float | None:
    """Cost per success, failures included; None without a success.

    Raises:
        ValueError: the total is missing or NaN, or the count is negative.
    """
    _check_counts(successes)
    (spent,) = _check_numbers([total])
    return spent / successes if successes else None


def cached_ratio(runs: Iterable[tuple[int | None, int | None, bool]]) -> float | None:
    """Share of input tokens read from a prompt cache, pooled over runs; None if no run reported it.

    *runs* are (cached tokens, input tokens, partial). Runs that lack either number, or reported cached tokens for some
    turns only (partial), are left out of both sums.
    """
    cached_sum = input_sum = 0
    for cached, tokens, partial in runs:
        if cached is not None and tokens is not None and not partial:
            cached_sum += cached
            input_sum += tokens
    return cached_sum / input_sum if input_sum else None


@cache
def _normal_quantile(conf: float) -> float:
    if not 0 < conf < 1:
        raise ValueError(f"a confidence lies between 0 and 1, not at {conf}")
    return statistics.NormalDist().inv_cdf(0.5 + conf / 2)


def _check_counts(n: int, passes: int = 0) -> None:
    """Refuse an invalid count: counts may come from files, and a NaN or missing one is not 0."""
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


def _check_numbers(xs: Iterable[float | None]) -> list[float]:
    values: list[float] = []
    for x in xs:
        if x is None or math.isnan(x):
            raise ValueError("a value is missing")
        values.append(float(x))
    return values
