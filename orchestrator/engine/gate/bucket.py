"""A rate as a bucket: it fills with time and every request takes some. Pure: it is told the time."""

from __future__ import annotations

import attrs


@attrs.define
class Bucket:
    """At most *per_minute* over any longer while; a burst of a sixth of that at once.

    A request larger than the bucket passes when the bucket is full and leaves it in debt.
    """

    per_minute: float
    processes: int = attrs.field(init=False, default=1)
    level: float = attrs.field(init=False)
    at: float | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.level = self.size

    @property
    def size(self) -> float:
        """What the bucket holds."""
        return max(1.0, self._rate / 6)

    def divide_rate(self, processes: int) -> None:
        """From now on the rate is shared by so many processes."""
        self.processes = max(1, processes)
        self.level = min(self.level, self.size)

    def opens_in(self, now: float, amount: float) -> float:
        """Seconds until *amount* may be taken; 0 when it may be now."""
        missing = min(amount, self.size) - self._refilled_level(now)
        return 0.0 if missing <= 1e-9 else missing * 60 / self._rate

    @property
    def rate_text(self) -> str:
        """The rate, for people."""
        shared = f" (shared by {self.processes} processes)" if self.processes > 1 else ""
        return f"{self.per_minute:g}{shared}"

    def take_tokens(self, now: float, amount: float) -> None:
        """Take *amount*; a negative one gives back."""
        self.level = min(self.size, self._refilled_level(now) - amount)
        self.at = now

    @property
    def _rate(self) -> float:
        return self.per_minute / self.processes

    def _refilled_level(self, now: float) -> float:
        since = 0.0 if self.at is None else max(0.0, now - self.at)
        return min(self.size, self.level + since * self._rate / 60)
