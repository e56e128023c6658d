"""Calibration of confidences: Brier score, reliability table and expected calibration error (ECE).

A confidence of None means that none was given: it is left out, and the caller reports how many were. Any other lies
between 0 and 1. An undefined result is None, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from store.stats.rates import Interval, wilson_interval

DEFAULT_BINS = 10
BIN_EDGE_TOLERANCE = 1e-9
"""Rounding tolerance that keeps a decimal at the lower edge of a bin, such as 0.29 of 100 bins, in that bin."""
MIN_ECE_CONFIDENCES = 50
"""Smallest number of confidences for which to show the ECE; with fewer it is mostly bias."""


@attrs.frozen(kw_only=True)
class CalibrationBin:
    """One bin of a reliability table: the confidences in [low, high); the last bin includes 1.0."""

    low: float
    high: float
    n: int
    mean_conf: float | None
    """Mean confidence; None in an empty bin, like the two fields below."""
    accuracy: float | None
    """Share of correct answers."""
    wilson: Interval | None
    """95 % Wilson interval of the accuracy, as if the runs were independent."""


def brier(conf: Sequence[float | None], correct: Sequence[bool | int]) -> float | None:
    """Brier score: the mean squared distance of the confidence from 1 if correct and from 0 if wrong; None without any.

    Raises:
        ValueError: a confidence is NaN or outside 0 to 1, an answer is neither correct (1) nor wrong (0), or the two
            sequences differ in length.
    """
    given = _pair_given(conf, correct)
    return math.fsum((confidence - right) ** 2 for confidence, right in given) / len(given) if given else None


def reliability_table(
    conf: Sequence[float | None], correct: Sequence[bool | int], bins: int = DEFAULT_BINS
) -> tuple[CalibrationBin, ...]:
    """Reliability table: mean confidence and accuracy in *bins* bins of equal width.

    Raises:
        ValueError: as for the Brier score, or *bins* is below 1.
    """
    if bins < 1:
        raise ValueError(f"expected at least one bin, got {bins}")
    filled: list[list[tuple[float, int]]] = [[] for _ in range(bins)]
    for confidence, right in _pair_given(conf, correct):
        filled[min(int(confidence * bins + BIN_EDGE_TOLERANCE), bins - 1)].append((confidence, right))
    return tuple(_make_bin(place / bins, (place + 1) / bins, pairs) for place, pairs in enumerate(filled))


def ece(conf: Sequence[float | None], correct: Sequence[bool | int], bins: int = DEFAULT_BINS) -> float | None:
    """Expected calibration error: the mean distance between confidence and accuracy of a bin; None without any.

    Biased upward and dependent on the bins: do not show it for fewer than 50 confidences.

    Raises:
        ValueError: as for `reliability_table`.
    """
    table = reliability_table(conf, correct, bins)
    n = sum(row.n for row in table)
    apart = [
        row.n * abs(row.accuracy - row.mean_conf)
        for row in table
        if row.accuracy is not None and row.mean_conf is not None
    ]
    return math.fsum(apart) / n if n else None


def brier_skill(conf: Sequence[float | None], correct: Sequence[bool | int]) -> float | None:
    """Brier skill score against always answering the overall accuracy: 1 is perfect, 0 is no better.

    None if all answers were correct or all wrong, and without any.

    Raises:
        ValueError: as for the Brier score.
    """
    given = _pair_given(conf, correct)
    score = brier(conf, correct)
    if score is None:
        return None
    right = sum(outcome for _, outcome in given) / len(given)
    return 1 - score / (right * (1 - right)) if 0 < right < 1 else None


def _make_bin(low: float, high: float, pairs: Sequence[tuple[float, int]]) -> CalibrationBin:
    n, right = len(pairs), sum(outcome for _, outcome in pairs)
    return CalibrationBin(
        low=low,
        high=high,
        n=n,
        mean_conf=math.fsum(confidence for confidence, _ in pairs) / n if n else None,
        accuracy=right / n if n else None,
        wilson=wilson_interval(right, n),
    )


def _pair_given(conf: Sequence[float | None], correct: Sequence[bool | int]) -> list[tuple[float, int]]:
    """Pair each given confidence with its correctness (0 or 1), leaving out those of None."""
    pairs: list[tuple[float, int]] = []
    for confidence, right in zip(conf, correct, strict=True):
        if right not in (0, 1):
            raise ValueError(f"expected right or wrong, got {right!r}")
        if confidence is None:
            continue
        if not 0 <= confidence <= 1:  # a NaN is in no range
            raise ValueError(f"a confidence lies between 0 and 1, not at {confidence}")
        pairs.append((float(confidence), int(right)))
    return pairs
