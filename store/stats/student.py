"""Student's t distribution, by the regularised incomplete beta function."""

from __future__ import annotations

import math
from functools import cache

MIN_DENOMINATOR = 1e-300
"""Keeps the continued fraction from dividing by zero."""
PRECISION = 1e-15
MAX_STEPS = 1000


def t_two_sided(t: float, df: float) -> float:
    """Two-sided p: probability of a value at least as far from 0 as *t*, with *df* > 0 degrees of freedom."""
    return _beta_regularised(df / (df + t * t), df / 2, 0.5)


@cache
def t_quantile(p: float, df: float) -> float:
    """Quantile *p* of the distribution, for 0.5 <= p < 1 and *df* > 0."""
    tail = 2 * (1 - p)
    high = 1.0
    while t_two_sided(high, df) > tail:
        high *= 2
    low = 0.0
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if t_two_sided(middle, df) > tail:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _beta_regularised(x: float, a: float, b: float) -> float:
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    # The fraction converges quickly only on one side of the mean; the other side is its mirror image.
    if x < (a + 1) / (a + b + 2):
        return front * _evaluate_fraction(x, a, b) / a
    return 1 - front * _evaluate_fraction(1 - x, b, a) / b


def _evaluate_fraction(x: float, a: float, b: float) -> float:
    """Evaluate the continued fraction by Lentz's method."""
    c, d = 1.0, 1 / _keep_from_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, MAX_STEPS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _keep_from_zero(1 + term * d)
            c = _keep_from_zero(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < PRECISION:
            break
    return value


def _keep_from_zero(value: float) -> float:
    return value if abs(value) > MIN_DENOMINATOR else MIN_DENOMINATOR
