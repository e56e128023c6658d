"""Tally of requests: what they used and cost, retries included. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import attrs

from orchestrator.engine.gate.charge import Charge
from store.events import Json


@attrs.define(kw_only=True)
class RequestTally:
    """Charges of requests, summed."""

    calls: int = 0
    tokens: int = 0
    unknown: int = 0
    """Requests whose usage was not reported; `tokens` is then a lower bound."""
    nusd: int = 0
    unpriced: int = 0
    """Requests whose cost is not known; `nusd` is then a lower bound."""
    sources: Counter[str] = attrs.field(factory=Counter[str])
    """Where the costs come from, by request."""

    def add_charge(self, charge: Charge) -> None:
        """Count one request."""
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
        """Where a known cost comes from: `bound` if a part of it is only an upper bound, `mixed` for several sources.

        None for no request, or an unknown cost.
        """
        if not self.calls or self.unpriced:
            return None
        if self.sources["bound"]:
            return "bound"
        return "mixed" if len(self.sources) > 1 else next(iter(self.sources))

    def to_json(self) -> dict[str, Json]:
        """As `detail.spent` of an outcome holds it; money only where some cost is known."""
        found = {"calls": self.calls, "tokens": self.tokens, "unknownUsage": self.unknown}
        if self.sources:
            found |= {"nusd": self.nusd, "unknownCost": self.unpriced}
        return found


def sum_tallies(tallies: Iterable[RequestTally]) -> RequestTally:
    """All of them as one."""
    whole = RequestTally()
    for tally in tallies:
        whole.calls += tally.calls
        whole.tokens += tally.tokens
        whole.unknown += tally.unknown
        whole.nusd += tally.nusd
        whole.unpriced += tally.unpriced
        whole.sources.update(tally.sources)
    return whole
