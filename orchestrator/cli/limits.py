"""Flags that limit a sweep: caps, rates, times, and runs in flight."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import attrs

from orchestrator.cli import options


@attrs.frozen(kw_only=True)
class LimitFlags:
    """The flags of caps, rates and times. None: no cap, or the default."""

    concurrency: int | None
    max_calls: int | None
    max_tokens: int | None = None
    max_cost_usd: Decimal | None
    max_wall: float | None
    """Seconds, like the other times."""
    rpm: float | None
    tpm: float | None
    max_wait: float | None
    max_stall: float | None

    def given_terms(self) -> dict[str, Any]:
        """Return the settings that were given, by name, without the caps; the others keep their defaults."""
        return options.drop_unset(
            concurrency=self.concurrency,
            max_wall_s=self.max_wall,
            rpm=self.rpm,
            tpm=self.tpm,
            max_wait_s=self.max_wait,
            max_stall_s=self.max_stall,
        )
