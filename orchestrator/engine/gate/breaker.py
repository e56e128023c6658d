"""Circuit breaker of an account. Pure.

A refused credential or an exhausted quota does not recover by itself: every further request would fail likewise.
"""

from __future__ import annotations

import attrs

from providers.errors import ProviderError
from store.errors import EvalctlError

OPENING_KINDS = frozenset({"auth", "quota"})
"""Kinds of errors that open the breaker at once."""
FAILURES_TO_OPEN = {"permission": 3}
"""Kinds of errors that may concern one request alone, and how many in a row open the breaker."""


@attrs.define(slots=False)
class ProviderBlocked(EvalctlError):
    """The circuit breaker is open: this process sends no more requests to the account."""

    cause: ProviderError

    def __str__(self) -> str:
        return f"no more requests go to the provider after {self.cause}"


@attrs.define
class Breaker:
    """Circuit breaker that opens once and stays open until the process ends."""

    cause: ProviderError | None = None
    """The error that opened it; None while it is closed."""
    _failures: int = attrs.field(init=False, default=0)

    def record_outcome(self, error: ProviderError | None) -> bool:
        """Count the end of a request: an answer, or its final *error*. Return whether this opened the breaker."""
        if error is None:
            self._failures = 0
            return False
        needed = 1 if error.kind in OPENING_KINDS else FAILURES_TO_OPEN.get(error.kind)
        if needed is None or self.cause is not None:
            return False
        self._failures += 1
        if self._failures < needed:
            return False
        self.cause = error
        return True
