"""Prices of a model's tokens: the upper bound of a request's cost, and its cost once the usage is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from store.money import divide_half_even, divide_rounding_up, format_nano_usd

if TYPE_CHECKING:
    from providers.usage import Usage
    from store.events import Json

TOKENS_PER_PRICE = 1_000_000
"""Number of tokens that a price is for."""


@attrs.frozen(kw_only=True)
class Cost:
    """The cost of a request in nano-USD."""

    nusd: int
    exact: bool
    """False: `nusd` is an upper bound, since some tokens had no price of their own."""


@attrs.frozen(kw_only=True)
class Price:
    """Prices of one model in nano-USD per million tokens. 0 is a price; None means no price."""

    input: int
    output: int
    cached: int | None = None
    """Input read from the provider's cache; None: unknown, counted as `input`, the upper bound."""
    cache_write: int | None = None
    """Input written to the provider's cache; None: same as `input`."""
    cache_write_1h: int | None = None
    """Input written to the cache for an hour; None: same as `cache_write`."""

    @property
    def dearest_input(self) -> int:
        """The highest price of input."""
        return max(self.input, self.cached or 0, self.cache_write or 0, self.cache_write_1h or 0)

    @property
    def free(self) -> bool:
        """True if all tokens cost nothing."""
        return not (self.dearest_input or self.output)

    def compute_bound(self, input_tokens: int, output_tokens: int) -> int:
        """Upper bound of a request's cost in nano-USD, rounded up, with all input at the dearest tier."""
        return divide_rounding_up(input_tokens * self.dearest_input + output_tokens * self.output, TOKENS_PER_PRICE)

    def compute_cost(self, usage: Usage) -> Cost | None:
        """The cost of *usage*, rounded once, half to even; None if input or output is unknown.

        Cached tokens are part of the input and charged once, in their tier. If the parts exceed the whole, the dearer
        tiers count first.
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
        return Cost(nusd=divide_half_even(total, TOKENS_PER_PRICE), exact=not cached or self.cached is not None)

    def to_json(self) -> dict[str, Json]:
        """The prices as in configuration files: USD per million tokens as decimal text."""
        return {name: format_nano_usd(nusd) for name, nusd in self._list_tiers() if nusd is not None}

    def _list_tiers(self) -> Iterator[tuple[str, int | None]]:
        for name, field in TIER_FIELDS.items():
            yield name, getattr(self, field)


TIER_FIELDS = {
    "input": "input",
    "output": "output",
    "cached": "cached",
    "cacheWrite": "cache_write",
    "cacheWrite1h": "cache_write_1h",
}
"""Price tiers: name in configuration files -> field of `Price`."""
REQUIRED_TIERS = ("input", "output")
