"""Token bucket: enforces a rate. It fills with time, and every request takes some. Pure: callers pass the time."""

from __future__ import annotations

import attrs


@attrs.define
class Bucket:
    """Token bucket of *per_minute*, with bursts of at most a sixth of that.

    A request larger than the bucket passes when the bucket is full, and leaves it in debt.
    """

    per_minute: float
    processes: int = attrs.field(init=False, default=1)
    """Number of processes that share the rate."""
    level: float = attrs.field(init=False)
    """Content at the time `at`; negative when in debt."""
    at: float | None = attrs.field(init=False, default=None)
    """Seconds; None until the first request."""

    def __attrs_post_init__(self) -> None:
        self.level = self.size

    @property
    def size(self) -> float:
        """Capacity of the bucket."""
        return max(1.0, self._rate / 6)

    def divide_rate(self, processes: int) -> None:
        """Share the rate with other processes: *processes* in all, this one included."""
        self.processes = max(1, processes)
        self.level = min(self.level, self.size)

    def opens_in(self, now: float, amount: float) -> float:
        """Seconds until *amount* may be taken; 0 if it may be taken now."""
        missing = min(amount, self.size) - self._refilled_level(now)
        return 0.0 if missing <= 1e-9 else missing * 60 / self._rate

    @property
    def rate_text(self) -> str:
        """The rate in words, such as `60 (shared by 2 processes)`."""
        shared = f" (shared by {self.processes} processes)" if self.processes > 1 else ""
        return f"{self.per_minute:g}{shared}"

    def take_tokens(self, now: float, amount: float) -> None:
        """Take *amount*; a negative amount gives back."""
        self.level = min(self.size, self._refilled_level(now) - amount)
        self.at = now

    @property
    def _rate(self) -> float:
        return self.per_minute / self.processes

    def _refilled_level(self, now: float) -> float:
        since = 0.0 if self.at is None else max(0.0, now - self.at)
        return min(self.size, self.level + since * self._rate / 60)
