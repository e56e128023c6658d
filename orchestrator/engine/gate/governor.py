"""AIMD limiter: how many requests an account may have in flight. Pure: callers pass the time; the gate acts.

The limit starts at half of the cap (at least 20) and grows by one with every answer until the provider throttles for
the first time. After that it grows by about one per limit's worth of answers, and every cut halves it. A burst of
throttled answers costs one cut: only requests that were sent after the last cut can cause the next one.
"""

from __future__ import annotations

import attrs

from orchestrator.engine.gate.bucket import Bucket
from orchestrator.engine.hold import Hold
from providers.errors import ProviderError

START_LIMIT = 20
CUT_FACTOR = 0.5
THROTTLING_KINDS = frozenset({"rate_limit", "overloaded"})
"""Kinds of errors that mean that the provider throttles."""


@attrs.frozen(kw_only=True)
class Ticket:
    """A request in flight: its permit and what it took of the account's token rate."""

    at: float
    """Seconds at which it was sent."""
    tokens: int


@attrs.define(kw_only=True)
class Governor:
    """AIMD limiter of one account in one process. Times are seconds on the clock that callers pass as *now*."""

    cap: int
    """Maximum number of requests in flight."""
    requests: Bucket | None = None
    """`--rpm`: requests per minute."""
    tokens: Bucket | None = None
    """`--tpm`: tokens per minute, taken by each request's upper bound and corrected when it has ended."""
    max_pause_s: float = 120.0
    """A longer Retry-After fails the request, but does not hold back others."""
    limit: float = attrs.field(
        default=attrs.Factory(
            lambda governor: float(min(governor.cap, max(START_LIMIT, governor.cap // 2))), takes_self=True
        )
    )
    """Requests in flight that the limiter admits; fractions accumulate."""
    in_flight: int = 0
    paused_until: float = 0.0
    """End of the provider's Retry-After."""
    cuts: int = 0
    cut_at: float = -1.0
    """Time of the last cut."""

    @property
    def allowed(self) -> int:
        """The limit as a whole number of requests, between 1 and the cap."""
        return max(1, min(self.cap, int(self.limit)))

    def admits_request(self, now: float, tokens: int = 0) -> bool:
        """Return whether a request with this upper bound of *tokens* may start now."""
        return self.opens_in(now, tokens) == 0

    def opens_in(self, now: float, tokens: int = 0) -> float | None:
        """Seconds until a request may start, 0 if it may start now; None if another request has to end first."""
        if self.in_flight >= self.allowed:
            return None
        wait = max(0.0, self.paused_until - now)
        for bucket, amount in ((self.requests, 1), (self.tokens, tokens)):
            if bucket is not None:
                wait = max(wait, bucket.opens_in(now, amount))
        return wait

    def find_hold(self, now: float, tokens: int = 0) -> Hold | None:
        """Find the hold that keeps a request back until a known time.

        None if there is none, or if the end of another request may make room earlier, also by giving back tokens.
        """
        if self.in_flight >= self.allowed:
            return None
        holds = [Hold(until=self.paused_until, cause="the provider's Retry-After")]
        for bucket, flag, amount in ((self.requests, "--rpm", 1), (self.tokens, "--tpm", tokens)):
            wait = 0.0 if bucket is None else bucket.opens_in(now, amount)
            if bucket is None or not wait:
                continue
            if bucket is self.tokens and self.in_flight:
                return None
            holds.append(Hold(until=now + wait, cause=f"{flag} {bucket.rate_text}", flag=flag))
        last = max(holds, key=lambda hold: hold.until)
        return last if last.until > now else None

    def start_request(self, now: float, tokens: int = 0) -> Ticket:
        """Count a request that is sent now; pass its ticket to `end_request` when it has ended."""
        self.in_flight += 1
        if self.requests is not None:
            self.requests.take_tokens(now, 1)
        if self.tokens is not None:
            self.tokens.take_tokens(now, tokens)
        return Ticket(at=now, tokens=tokens)

    def end_request(self, now: float, ticket: Ticket, error: ProviderError | None, tokens: int | None = None) -> bool:
        """Count the end of a request: an answer, an *error*, or neither if it was given up.

        *tokens* is what the request used; None if unknown. Return whether the limit was cut.
        """
        self.in_flight -= 1
        if self.tokens is not None and tokens is not None:
            self.tokens.take_tokens(now, tokens - ticket.tokens)
        if error is None:
            self._raise_limit()
            return False
        if error.kind not in THROTTLING_KINDS:
            return False
        if error.retry_after_s is not None and error.retry_after_s <= self.max_pause_s:
            self.paused_until = max(self.paused_until, now + error.retry_after_s)
        if ticket.at <= self.cut_at:
            return False
        self.cuts += 1
        self.cut_at = now
        self.limit = max(1.0, min(self.limit, self.in_flight + 1.0) * CUT_FACTOR)
        return True

    def divide_rates(self, processes: int) -> None:
        """Share the account's rates among *processes*."""
        for bucket in (self.requests, self.tokens):
            if bucket is not None:
                bucket.divide_rate(processes)

    def _raise_limit(self) -> None:
        if self.in_flight + 1 < self.allowed // 2:
            return  # an unused limit proves nothing about the account
        self.limit = min(float(self.cap), self.limit + (1.0 if not self.cuts else 1.0 / self.limit))
