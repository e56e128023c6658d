"""Choices that follow from a seed alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """A seeded source of choices.

    Everything is made of `Random.random()`: that is the one method whose sequence Python promises to keep for a seed,
    and what is drawn here is committed.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - texts of a task, no secrets

    def draw_below(self, bound: int) -> int:
        """A number from 0 to *bound* - 1."""
        return int(self._random.random() * bound)

    def draw_between(self, minimum: int, maximum: int) -> int:
        """A number from *least* to *most*, both included."""
        return minimum + self.draw_below(maximum - minimum + 1)

    def pick_item(self, items: Sequence[T]) -> T:
        """One of *items*."""
        return items[self.draw_below(len(items))]

    def draw_sample(self, items: Sequence[T], count: int) -> list[T]:
        """*count* of *items*, each once, in any order.

        Raises:
            IndexError: there are not so many.
        """
        left = [*items]
        return [left.pop(self.draw_below(len(left))) for _ in range(count)]

    def shuffle_items(self, items: Sequence[T]) -> list[T]:
        """All *items* in any order."""
        return self.draw_sample(items, len(items))
