"""The price of a model's tokens: an upper bound before a request, and its cost once its usage is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from store.money import divided, divided_up, usd

if TYPE_CHECKING:
    from providers.usage import Usage
    from store.events import Json

MILLION = 1_000_000
"""Prices are for so many tokens."""


@attrs.frozen(kw_only=True)
class Cost:
    """What a request cost, in nano-USD."""

    nusd: int
    exact: bool
    """False: at most so much, since some of its tokens had no price of their own."""


@attrs.frozen(kw_only=True)
class Price:
    """Nano-USD per million tokens of one model. 0 is a price; None is none."""

    input: int
    output: int
    cached: int | None = None
    """Input read from the provider's cache; None: unknown, and at most `input`."""
    cache_write: int | None = None
    """Input written to the provider's cache; None: as any other input."""
    cache_write_1h: int | None = None
    """The same where it is kept for an hour; None: as `cache_write`."""

    @property
    def dearest_input(self) -> int:
        """The most that a token of input can cost."""
        return max(self.input, self.cached or 0, self.cache_write or 0, self.cache_write_1h or 0)

    @property
    def free(self) -> bool:
        """Whether nothing costs anything."""
        return not (self.dearest_input or self.output)

    def bound(self, input_tokens: int, output_tokens: int) -> int:
        """Nano-USD that a request of at most so many tokens can cost, rounded up: its input at the dearest tier."""
        return divided_up(input_tokens * self.dearest_input + output_tokens * self.output, MILLION)

    def cost(self, usage: Usage) -> Cost | None:
        """What *usage* comes to, rounded half to even once; None where input or output is not known.

        Tokens that a cache held or took are part of the input and are charged once, in their tier. Where the parts
        claim more than the whole, the dearer ones count first.
        """
        if usage.input is None or usage.output is None:
            return None
        write = self.input if self.cache_write is None else self.cache_write
        write_1h = write if self.cache_write_1h is None else self.cache_write_1h
        written = min(usage.cache_write or 0, usage.input)
        written_1h = min(usage.cache_write_1h or 0, written)
        cached = min(usage.cached or 0, usage.input - written)
        plain = usage.input - written - cached
        total = (
            plain * self.input
            + cached * (self.input if self.cached is None else self.cached)
            + (written - written_1h) * write
            + written_1h * write_1h
            + usage.output * self.output
        )
        return Cost(nusd=divided(total, MILLION), exact=not cached or self.cached is not None)

    def to_json(self) -> dict[str, Json]:
        """As configuration spells it: USD per million tokens as decimal text."""
        return {name: usd(nusd) for name, nusd in self._tiers() if nusd is not None}

    def _tiers(self) -> Iterator[tuple[str, int | None]]:
        for name, field in TIERS.items():
            yield name, getattr(self, field)


TIERS = {
    "input": "input",
    "output": "output",
    "cached": "cached",
    "cacheWrite": "cache_write",
    "cacheWrite1h": "cache_write_1h",
}
"""The tiers as configuration spells them, and their fields."""
REQUIRED = ("input", "output")
