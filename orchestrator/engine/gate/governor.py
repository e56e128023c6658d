"""How many requests an account takes at once. Pure: it is told the time and decides; the gate acts.

The limit finds itself. It starts at half of the cap (at least 20) and grows by one with every answer until the provider
throttles for the first time; after that it grows by about one for every limit's worth of answers. A burst of throttled
answers is one event and costs one cut: only requests that were sent after the last cut can cause the next one.
"""

from __future__ import annotations

import attrs

from orchestrator.engine.gate.bucket import Bucket
from orchestrator.engine.hold import Hold
from providers.errors import ProviderError

START_LIMIT = 20
CUT_FACTOR = 0.5
THROTTLING_KINDS = frozenset({"rate_limit", "overloaded"})


@attrs.frozen(kw_only=True)
class Ticket:
    """A request in flight: when it left, and what was taken from the account's token rate for it."""

    at: float
    tokens: int


@attrs.define(kw_only=True)
class Governor:
    """An account's limits, as seen by one process. Times are seconds on the clock that callers pass as *now*."""

    cap: int
    """Never more than so many requests in flight."""
    requests: Bucket | None = None
    """`--rpm`: requests per minute."""
    tokens: Bucket | None = None
    """`--tpm`: tokens per minute, by each request's upper bound, corrected when it has been answered."""
    max_pause_s: float = 120.0
    """A provider that asks for more has refused the request; others may try all the same."""
    limit: float = attrs.field(
        default=attrs.Factory(
            lambda governor: float(min(governor.cap, max(START_LIMIT, governor.cap // 2))), takes_self=True
        )
    )
    in_flight: int = 0
    paused_until: float = 0.0
    cuts: int = 0
    cut_at: float = -1.0

    @property
    def allowed(self) -> int:
        """Whole requests that may be in flight."""
        return max(1, min(self.cap, int(self.limit)))

    def admits_request(self, now: float, tokens: int = 0) -> bool:
        """Whether a request with this upper bound of *tokens* may start now."""
        return self.opens_in(now, tokens) == 0

    def opens_in(self, now: float, tokens: int = 0) -> float | None:
        """Seconds until time alone makes room, 0 when there is room; None when only another request's end can."""
        if self.in_flight >= self.allowed:
            return None
        wait = max(0.0, self.paused_until - now)
        for bucket, amount in ((self.requests, 1), (self.tokens, tokens)):
            if bucket is not None:
                wait = max(wait, bucket.opens_in(now, amount))
        return wait

    def find_hold(self, now: float, tokens: int = 0) -> Hold | None:
        """What keeps a request back until a time that is known.

        None where nothing does, and where the end of another request may make room: also by giving back tokens.
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
        """A request leaves; hand the ticket back when it has ended."""
        self.in_flight += 1
        if self.requests is not None:
            self.requests.take_tokens(now, 1)
        if self.tokens is not None:
            self.tokens.take_tokens(now, tokens)
        return Ticket(at=now, tokens=tokens)

    def end_request(self, now: float, ticket: Ticket, error: ProviderError | None, tokens: int | None = None) -> bool:
        """A request has been answered, has failed with *error*, or was given up; it used *tokens*, if known.

        Returns whether the limit was cut.
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
        """The rates are the account's: so many processes share them."""
        for bucket in (self.requests, self.tokens):
            if bucket is not None:
                bucket.divide_rate(processes)

    def _raise_limit(self) -> None:
        if self.in_flight + 1 < self.allowed // 2:
            return  # an unused limit says nothing about what the account would take
        self.limit = min(float(self.cap), self.limit + (1.0 if not self.cuts else 1.0 / self.limit))
