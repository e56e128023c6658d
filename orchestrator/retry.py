"""Whether and when to send a failed request again. Pure: randomness and numbers come in, a delay goes out."""

from __future__ import annotations

import random

import attrs

from providers.base import ProviderError

BASE_S = 0.5
LONGEST_BACKOFF_S = 8.0


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """Bounds on retries. A provider's throttling is bounded by time, everything else by number."""

    retries: int = 4
    """How often network faults and server errors are tried again."""
    max_wait_s: float = 120.0
    """A longer Retry-After fails at once."""
    max_stall_s: float = 600.0
    """How long one request may be throttled in all."""

    def delay(self, error: ProviderError, *, faults: int, waited_s: float, rng: random.Random) -> float | None:
        """Seconds to wait before the next try; None to give up.

        Args:
            error: why the last try failed.
            faults: failed tries so far that were not throttling, this one included.
            waited_s: what this request has waited for retries so far.
            rng: spreads the waits, so that many clients do not come back at the same instant.
        """
        if not error.retryable:
            return None
        throttled = error.kind == "rate_limit"
        if not throttled and faults > self.retries:
            return None
        if error.retry_after_s is not None:
            if error.retry_after_s > self.max_wait_s:
                return None
            # the provider's figure is a minimum; a little more keeps clients apart
            delay = error.retry_after_s * (1 + 0.1 * rng.random())
        else:
            ceiling = min(LONGEST_BACKOFF_S, BASE_S * 2.0 ** max(0, faults - 1))
            delay = ceiling * (0.5 + 0.5 * rng.random()) if throttled else ceiling * rng.random()
        if throttled and waited_s + delay > self.max_stall_s:
            return None
        return delay
