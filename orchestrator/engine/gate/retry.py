"""Whether and when to send a failed request again. Pure: randomness and numbers come in, a delay goes out."""

from __future__ import annotations

import random

import attrs

from providers.errors import ProviderError

BASE_BACKOFF_S = 0.5
MAX_BACKOFF_S = 8.0


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """Bounds on retries. A provider's throttling is bounded by time, everything else by number."""

    retries: int = 4
    """How often network faults and server errors are tried again."""
    first_token_retries: int = 1
    """How often an endpoint that answered nothing in time is asked again."""
    max_wait_s: float = 120.0
    """A longer Retry-After fails at once."""
    max_stall_s: float = 600.0
    """How long any one wait may be, and how long one request may be throttled in all."""

    def delay_before_retry(
        self, error: ProviderError, *, faults: int, waited_s: float, rng: random.Random
    ) -> float | None:
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
        bound = min(self.first_token_retries, self.retries) if stayed_silent(error) else self.retries
        if not throttled and faults > bound:
            return None
        asked_s = error.retry_after_s
        if asked_s is not None and asked_s > self.max_wait_s:
            return None
        if asked_s is None or (throttled and asked_s < BASE_BACKOFF_S):
            # Throttling is not counted, so what was waited has to make the waits grow: "try again in 0 s", answered
            # to the letter, would be a flood that no bound ends.
            ceiling = BASE_BACKOFF_S * 2.0 ** max(0, faults - 1)
            ceiling = min(MAX_BACKOFF_S, max(ceiling, waited_s) if throttled else ceiling)
            delay = ceiling * (0.5 + 0.5 * rng.random()) if throttled else ceiling * rng.random()
            delay = max(delay, asked_s or 0.0)
        else:
            # the provider's figure is a minimum; a little more keeps clients apart
            delay = asked_s * (1 + 0.1 * rng.random())
        if delay > self.max_stall_s or (throttled and waited_s + delay > self.max_stall_s):
            return None
        return delay


def stayed_silent(error: ProviderError) -> bool:
    """Whether an endpoint had been reached and let the time for its first token pass."""
    return error.kind == "timeout" and not error.text and (error.status is None or error.status < 300)
