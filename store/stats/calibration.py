"""Calibration: whether a confidence says how often one is right.

A confidence of None was not given: it is left out, and whoever shows a figure counts it. Anything else lies between 0
and 1. What is undefined is None and never 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from store.stats.rates import Interval, wilson_interval

BINS = 10
EDGE = 1e-9
"""Keeps a decimal that begins a bin, such as 0.29 among 100 bins, in its own."""
MIN_ECE = 50
"""With fewer confidences the expected calibration error is mostly its own bias."""


@attrs.frozen(kw_only=True)
class Bin:
    """The confidences from `low` on and below `high`; the last bin holds 1.0 too."""

    low: float
    high: float
    n: int
    mean_conf: float | None
    """None in an empty bin, like the two below."""
    accuracy: float | None
    """The share that was right."""
    wilson: Interval | None
    """95 %, of the accuracy, as if the runs were independent."""


def brier(conf: Sequence[float | None], correct: Sequence[bool | int]) -> float | None:
    """The mean squared distance of the confidence from 1 where right, and from 0 where wrong; None without any.

    Raises:
        ValueError: a confidence is NaN or outside 0 to 1, an answer is neither right (1) nor wrong (0), or there
            are not as many of the ones as of the others.
    """
    given = _given(conf, correct)
    return math.fsum((confidence - right) ** 2 for confidence, right in given) / len(given) if given else None


def reliability_table(conf: Sequence[float | None], correct: Sequence[bool | int], bins: int = BINS) -> tuple[Bin, ...]:
    """What confidences come to, in *bins* bins of the same width.

    Raises:
        ValueError: as `brier`, or there is no bin.
    """
    if bins < 1:
        raise ValueError(f"expected at least one bin, got {bins}")
    filled: list[list[tuple[float, int]]] = [[] for _ in range(bins)]
    for confidence, right in _given(conf, correct):
        filled[min(int(confidence * bins + EDGE), bins - 1)].append((confidence, right))
    return tuple(_bin(place / bins, (place + 1) / bins, held) for place, held in enumerate(filled))


def ece(conf: Sequence[float | None], correct: Sequence[bool | int], bins: int = BINS) -> float | None:
    """The expected calibration error: how far confidence and accuracy of a bin are apart, on average; None without any.

    Biased upward, and dependent on the bins: not to be shown below `MIN_ECE` confidences.

    Raises:
        ValueError: as `reliability_table`.
    """
    table = reliability_table(conf, correct, bins)
    n = sum(one.n for one in table)
    apart = [
        one.n * abs(one.accuracy - one.mean_conf)
        for one in table
        if one.accuracy is not None and one.mean_conf is not None
    ]
    return math.fsum(apart) / n if n else None


def brier_skill(conf: Sequence[float | None], correct: Sequence[bool | int]) -> float | None:
    """By how much the Brier score beats that of always saying the overall accuracy: 1 is perfect, 0 no better.

    None where all were right or all were wrong, and without any.

    Raises:
        ValueError: as `brier`.
    """
    given = _given(conf, correct)
    score = brier(conf, correct)
    if score is None:
        return None
    right = sum(one for _, one in given) / len(given)
    return 1 - score / (right * (1 - right)) if 0 < right < 1 else None


def _bin(low: float, high: float, held: Sequence[tuple[float, int]]) -> Bin:
    n, right = len(held), sum(one for _, one in held)
    return Bin(
        low=low,
        high=high,
        n=n,
        mean_conf=math.fsum(confidence for confidence, _ in held) / n if n else None,
        accuracy=right / n if n else None,
        wilson=wilson_interval(right, n),
    )


def _given(conf: Sequence[float | None], correct: Sequence[bool | int]) -> list[tuple[float, int]]:
    """The confidences that there are, each with whether it was right."""
    found: list[tuple[float, int]] = []
    for confidence, right in zip(conf, correct, strict=True):
        if right not in (0, 1):
            raise ValueError(f"expected right or wrong, got {right!r}")
        if confidence is None:
            continue
        if not 0 <= confidence <= 1:  # a NaN is in no range
            raise ValueError(f"a confidence lies between 0 and 1, not at {confidence}")
        found.append((float(confidence), int(right)))
    return found
