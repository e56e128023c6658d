"""Run order: a pure function of the plan's size and the seed.

Repetitions are the outermost loop, cases are shuffled anew for every repetition, and the variants of a case are
adjacent, A,B then B,A, so that a provider's drift affects all variants alike.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import attrs


@attrs.frozen(kw_only=True)
class Slot:
    """One run's place in the order; all numbers count from 0."""

    case: int
    variant: int
    repetition: int
    pair: int


def order_runs(*, cases: int, variants: int, repetitions: int, seed: int) -> Iterator[Slot]:
    """Yield every (case, variant, repetition) once, in the order in which the runs start."""
    pair = 0
    for repetition in range(repetitions):
        shuffled = list(range(cases))
        random.Random(seed + repetition).shuffle(shuffled)  # noqa: S311 - an order, not a secret
        for case in shuffled:
            forward = range(variants)
            for variant in forward if pair % 2 == 0 else reversed(forward):
                yield Slot(case=case, variant=variant, repetition=repetition, pair=pair)
            pair += 1
