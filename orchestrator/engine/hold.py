"""Hold of an account: the time until which its limits keep the next request back. The gate makes it, waits read it."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Hold:
    """A reason why a request cannot start before a known time."""

    until: float
    """Seconds on the event loop's clock."""
    cause: str
    """The limit in words, such as `--tpm 1`."""
    flag: str | None = None
    """The flag of the rate; a higher one would shorten the hold. None for the provider's own limit."""
