"""When to stop asking an account at all. Pure.

A refused credential or a spent account does not mend itself, and every further request would say the same.
"""

from __future__ import annotations

import attrs

from providers.errors import ProviderError
from store.errors import EvalctlError

OPENING_KINDS = frozenset({"auth", "quota"})
FAILURES_TO_OPEN = {"permission": 3}
"""Kinds that may concern one request alone: so many of them, with no answer between, are about the account."""


@attrs.define(slots=False)
class ProviderBlocked(EvalctlError):
    """The account has refused for good; nothing more is asked of it in this invocation."""

    cause: ProviderError

    def __str__(self) -> str:
        return f"nothing more is asked of the provider after {self.cause}"


@attrs.define
class Breaker:
    """Opens once and stays open for the rest of this process's share."""

    cause: ProviderError | None = None
    """Why it is open; None while it is closed."""
    _failures: int = attrs.field(init=False, default=0)

    def record_outcome(self, error: ProviderError | None) -> bool:
        """A request was answered or has failed for good with *error*. Returns whether the breaker opened just now."""
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
