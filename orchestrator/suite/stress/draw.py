"""Random choices that depend on a seed alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Seeded source of random choices.

    It uses only `Random.random()`, the one method whose sequence Python guarantees for a seed, because the generated
    files are committed.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - texts of a task, no secrets

    def draw_below(self, bound: int) -> int:
        """Draw an integer from 0 to *bound* - 1."""
        return int(self._random.random() * bound)

    def draw_between(self, minimum: int, maximum: int) -> int:
        """Draw an integer from *minimum* to *maximum*, both included."""
        return minimum + self.draw_below(maximum - minimum + 1)

    def pick_item(self, items: Sequence[T]) -> T:
        """Pick one of *items*."""
        return items[self.draw_below(len(items))]

    def draw_sample(self, items: Sequence[T], count: int) -> list[T]:
        """Draw *count* different *items*, in random order.

        Raises:
            IndexError: there are fewer items.
        """
        left = [*items]
        return [left.pop(self.draw_below(len(left))) for _ in range(count)]

    def shuffle_items(self, items: Sequence[T]) -> list[T]:
        """Return all *items* in random order."""
        return self.draw_sample(items, len(items))
