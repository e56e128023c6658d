"""Tally of requests: their usage and cost, retries included. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs

from orchestrator.engine.gate.charge import Charge
from store.events import Json


@attrs.define(kw_only=True)
class RequestTally:
    """Sum of the charges of requests."""

    calls: int = 0
    tokens: int = 0
    unknown: int = 0
    """Number of requests without reported usage; `tokens` is then a lower bound."""
    nusd: int = 0
    unpriced: int = 0
    """Number of requests of unknown cost; `nusd` is then a lower bound."""
    sources: Counter[str] = attrs.field(factory=Counter[str])
    """Number of requests by source of their cost."""

    def add_charge(self, charge: Charge) -> None:
        """Add the charge of one request."""
        self.calls += 1
        self.unknown += charge.unknown
        self.tokens += 0 if charge.unknown else charge.amount.tokens
        if charge.cost_nusd is None:
            self.unpriced += 1
        else:
            self.nusd += charge.cost_nusd
            self.sources[charge.source or ""] += 1

    @property
    def source(self) -> str | None:
        """Source of the cost: `bound` if any of it is only an upper bound, `mixed` for several sources.

        None without requests, or if the cost is unknown.
        """
        if not self.calls or self.unpriced:
            return None
        if self.sources["bound"]:
            return "bound"
        return "mixed" if len(self.sources) > 1 else next(iter(self.sources))

    def to_json(self) -> dict[str, Json]:
        """Encode the tally as `detail.spent` of an outcome; money only if some cost is known."""
        figures = {"calls": self.calls, "tokens": self.tokens, "unknownUsage": self.unknown}
        if self.sources:
            figures |= {"nusd": self.nusd, "unknownCost": self.unpriced}
        return figures


def sum_tallies(tallies: Iterable[RequestTally]) -> RequestTally:
    """Sum *tallies* to one."""
    whole = RequestTally()
    for tally in tallies:
        whole.calls += tally.calls
        whole.tokens += tally.tokens
        whole.unknown += tally.unknown
        whole.nusd += tally.nusd
        whole.unpriced += tally.unpriced
        whole.sources.update(tally.sources)
    return whole
