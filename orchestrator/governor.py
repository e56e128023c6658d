"""How many requests an account takes at once. Pure: it is told the time and decides; the gate acts.

This one has a fixed limit; an adaptive one has the same four methods.
"""

from __future__ import annotations

import attrs

from providers.base import ProviderError


@attrs.define(kw_only=True)
class Governor:
    """A fixed limit of requests in flight, and one pause for all when the provider asks to slow down."""

    limit: int
    longest_pause_s: float = 120.0
    """A provider that asks for more has refused the request; others may try all the same."""
    in_flight: int = 0
    paused_until: float = 0.0
    """On the clock that callers pass as *now*, in seconds."""

    def admits(self, now: float) -> bool:
        """Whether a request may start now."""
        return self.in_flight < self.limit and now >= self.paused_until

    def opens_in(self, now: float) -> float | None:
        """Seconds until time alone makes room; None when only the end of another request can."""
        return None if self.in_flight >= self.limit else max(0.0, self.paused_until - now)

    def started(self) -> None:
        """A request has left."""
        self.in_flight += 1

    def ended(self, now: float, error: ProviderError | None) -> None:
        """A request has been answered, has failed with *error*, or was given up."""
        self.in_flight -= 1
        if error is None or error.kind not in ("rate_limit", "overloaded") or error.retry_after_s is None:
            return
        if error.retry_after_s <= self.longest_pause_s:
            self.paused_until = max(self.paused_until, now + error.retry_after_s)
