"""Comparison of two sides of one case: the screen (overlap of Wilson intervals) for the verdict, and exact tests.

The tests never replace the screen's verdict. Differences are candidate minus baseline. An undefined result is None,
never 0; a missing or NaN input is a ValueError.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NotRequired, TypedDict

from store.stats.rates import CONFIDENCE, MIN_JUDGED, Interval, wilson_interval

ComparisonVerdict = Literal[
    "improved", "regressed", "inconclusive", "low power", "not comparable", "changed", "unchanged"
]
"""The first five apply to live runs; replayed runs are `changed`, `unchanged` or `not comparable`."""
IntervalRelation = Literal["b_above", "b_below", "overlap"]

PLAYED_MODES = frozenset({"replay", "offline"})
"""Modes that replay recorded answers: nothing is sampled, so there are no intervals."""
TOUCH_TOLERANCE = 1e-12
"""Tolerance within which two bounds touch; touching intervals overlap."""


class SideCounts(TypedDict):
    """The counts of one side of a case."""

    passes: int
    judged: int
    errored: int
    mode: str
    verifiers: NotRequired[object]
    """The verdicts of the verifiers, in any form with equality; used only in modes that replay."""


def compare_verdict(a: SideCounts, b: SideCounts, conf: float = CONFIDENCE) -> ComparisonVerdict:
    """Give the verdict on candidate *b* against baseline *a*: not comparable > low power > a direction > inconclusive.

    In modes that replay, nothing is sampled: the sides are `unchanged` if counts and verifier outcomes are equal.

    Raises:
        ValueError: an invalid count, or more passes than runs.
    """
    intervals = [wilson_interval(side["passes"], side["judged"], conf) for side in (a, b)]
    if a["errored"] or b["errored"] or a["mode"] != b["mode"]:
        return "not comparable"
    if a["mode"] in PLAYED_MODES:
        measured = [(side["passes"], side["judged"], side.get("verifiers")) for side in (a, b)]
        return "unchanged" if measured[0] == measured[1] else "changed"
    if min(a["judged"], b["judged"]) < MIN_JUDGED:
        return "low power"
    baseline, candidate = intervals
    assert baseline is not None
    assert candidate is not None
    words: dict[IntervalRelation, ComparisonVerdict] = {
        "b_above": "improved",
        "b_below": "regressed",
        "overlap": "inconclusive",
    }
    return words[interval_relation(baseline, candidate)]


def interval_relation(a: Sequence[float], b: Sequence[float]) -> IntervalRelation:
    """Relate interval *b* to interval *a*: strictly above, strictly below, or overlapping (touching included)."""
    if b[0] - a[1] > TOUCH_TOLERANCE:
        return "b_above"
    return "b_below" if a[0] - b[1] > TOUCH_TOLERANCE else "overlap"


def wilson_hi_exact(n: int) -> float | None:
    """Upper Wilson bound if all *n* passed: exactly 1.0; None for n = 0.

    Raises:
        ValueError: *n* is not a count.
    """
    interval = wilson_interval(n, n)
    return None if interval is None else interval[1]


def newcombe_diff(x1: int, n1: int, x2: int, n2: int) -> Interval | None:
    """Newcombe's 95 % interval for x1/n1 - x2/n2 with independent repetitions; None if a side has no runs.

    Raises:
        ValueError: an invalid count, or more passes than runs.
    """
    first, second = wilson_interval(x1, n1), wilson_interval(x2, n2)
    if first is None or second is None:
        return None
    return _combine_wilson_limits((x1 / n1, first), (x2 / n2, second), phi=0.0)


def newcombe_paired(both: int, only1: int, only2: int, neither: int) -> Interval | None:
    """Newcombe's paired 95 % interval for the difference of two rates over the same cases, one run per case and side.

    *only1* counts the cases that only the first side passed. None without cases.

    Raises:
        ValueError: an invalid count.
    """
    n = both + only1 + only2 + neither
    x1, x2 = both + only1, both + only2
    for count in (both, only1, only2, neither):
        wilson_interval(0, count)  # refuses an invalid count
    first, second = wilson_interval(x1, n), wilson_interval(x2, n)
    if first is None or second is None:
        return None
    margins = x1 * (n - x1) * x2 * (n - x2)
    phi = 0.0
    if margins:
        product = both * neither - only1 * only2
        # The continuity correction applies to a positive association only.
        phi = (max(product - n / 2, 0) if product > 0 else product) / math.sqrt(margins)
    low, high = _combine_wilson_limits((x1 / n, first), (x2 / n, second), phi=phi)
    return max(low, -1.0), min(high, 1.0)


def _combine_wilson_limits(first: tuple[float, Interval], second: tuple[float, Interval], *, phi: float) -> Interval:
    """Limits of a difference from two rates with their Wilson limits and their correlation *phi*."""
    (p1, (l1, u1)), (p2, (l2, u2)) = first, second
    below = (p1 - l1) ** 2 + (u2 - p2) ** 2 - 2 * phi * (p1 - l1) * (u2 - p2)
    above = (u1 - p1) ** 2 + (p2 - l2) ** 2 - 2 * phi * (u1 - p1) * (p2 - l2)
    return p1 - p2 - math.sqrt(max(below, 0.0)), p1 - p2 + math.sqrt(max(above, 0.0))


def mcnemar_exact(b: int, c: int, midp: bool = False) -> float:
    """McNemar's exact two-sided p for *b* against *c* discordant cases, one run per case and side; 1.0 without any.

    Fewer than six discordant cases cannot reach 0.05. Repetitions of one case are not pairs.

    Raises:
        ValueError: an invalid count.
    """
    for count in (b, c):
        wilson_interval(0, count)  # refuses an invalid count
    n, smaller = b + c, min(b, c)
    tail = sum(math.comb(n, i) for i in range(smaller + 1))
    doubled = 2 * tail - (math.comb(n, smaller) if midp else 0)
    return min(1.0, doubled / (1 << n))


def fisher_exact(x1: int, n1: int, x2: int, n2: int) -> float:
    """Fisher's exact two-sided p for x1 of n1 against x2 of n2; 1.0 if the margins allow only one table.

    Raises:
        ValueError: an invalid count, or more passes than runs.
    """
    for passes, n in ((x1, n1), (x2, n2)):
        wilson_interval(passes, n)  # refuses an invalid count
    passes = x1 + x2
    weights = [math.comb(n1, x) * math.comb(n2, passes - x) for x in range(max(0, passes - n2), min(n1, passes) + 1)]
    observed = math.comb(n1, x1) * math.comb(n2, x2)
    # Integers throughout, so that a rounding error never leaves out a table.
    as_rare = sum(weight for weight in weights if weight <= observed)
    return as_rare / math.comb(n1 + n2, passes)


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment of p-values for multiple tests, in the order given.

    Raises:
        ValueError: a value is not a probability.
    """
    order = _rank_p_values(ps)
    adjusted = [0.0] * len(ps)
    highest = 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[place]))
        adjusted[place] = highest
    return adjusted


def bh(ps: Sequence[float]) -> list[float]:
    """Benjamini-Hochberg adjustment of p-values for the false discovery rate, in the order given.

    Raises:
        ValueError: a value is not a probability.
    """
    order = _rank_p_values(ps)
    adjusted = [0.0] * len(ps)
    lowest = 1.0
    for rank in range(len(ps), 0, -1):
        place = order[rank - 1]
        lowest = min(lowest, ps[place] * len(ps) / rank)
        adjusted[place] = lowest
    return adjusted


def _rank_p_values(ps: Sequence[float]) -> list[int]:
    if any(not 0 <= p <= 1 for p in ps):  # a NaN is in no range
        raise ValueError("a p-value lies between 0 and 1")
    return sorted(range(len(ps)), key=lambda place: ps[place])
