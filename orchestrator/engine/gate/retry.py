"""Retry policy: whether and when to send a failed request again, with jittered exponential backoff. Pure."""

from __future__ import annotations

import random

import attrs

from providers.errors import ProviderError

BASE_BACKOFF_S = 0.5
MAX_BACKOFF_S = 8.0
BREAK_RETRIES = 2
"""How often an answer that its endpoint broke off is requested again; every try is paid."""


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """Retry policy: throttling is bounded by time, all other failures by number."""

    retries: int = 4
    """Maximum number of retries after network faults and server errors."""
    first_token_retries: int = 1
    """Maximum number of retries after an endpoint sent no first token in time."""
    max_wait_s: float = 120.0
    """A longer Retry-After fails at once."""
    max_stall_s: float = 600.0
    """Maximum of a single delay, and of all delays of one throttled request."""

    def delay_before_retry(
        self, error: ProviderError, *, faults: int, waited_s: float, rng: random.Random
    ) -> float | None:
        """Seconds to wait before the next try; None to give up.

        Args:
            error: the error of the last try.
            faults: number of failed tries so far without throttled ones, the last one included.
            waited_s: seconds this request has waited for retries so far.
            rng: source of the jitter, which keeps many clients from retrying at the same instant.
        """
        if not error.retryable:
            return None
        throttled = error.kind == "rate_limit"
        bound = min(self.first_token_retries, self.retries) if stayed_silent(error) else self.retries
        if error.broken_off:
            bound = min(bound, BREAK_RETRIES)
        if not throttled and faults > bound:
            return None
        asked_s = error.retry_after_s
        if asked_s is not None and asked_s > self.max_wait_s:
            return None
        if asked_s is None or (throttled and asked_s < BASE_BACKOFF_S):
            # Throttled tries are not counted, so the time waited so far has to make the delays grow: obeying "try
            # again in 0 s" literally would flood the provider without end.
            ceiling = BASE_BACKOFF_S * 2.0 ** max(0, faults - 1)
            ceiling = min(MAX_BACKOFF_S, max(ceiling, waited_s) if throttled else ceiling)
            delay = ceiling * (0.5 + 0.5 * rng.random()) if throttled else ceiling * rng.random()
            delay = max(delay, asked_s or 0.0)
        else:
            # the provider's figure is a minimum; the jitter on top keeps clients apart
            delay = asked_s * (1 + 0.1 * rng.random())
        if delay > self.max_stall_s or (throttled and waited_s + delay > self.max_stall_s):
            return None
        return delay


def stayed_silent(error: ProviderError) -> bool:
    """Return whether the endpoint was reached but sent no first token in time."""
    if error.kind != "timeout":
        return False
    return error.kept_alive or (not error.text and (error.status is None or error.status < 300))
