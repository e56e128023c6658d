"""The hold of an account: until when its limits keep a request back. The gate makes it, whoever waits reads it."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Hold:
    """What keeps a request back until a time that is known."""

    until: float
    cause: str
    """`--tpm 1`."""
    flag: str | None = None
    """The rate that would bring the time nearer if it were higher."""
