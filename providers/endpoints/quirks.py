"""What an endpoint has turned out not to take: learnt from its refusals, remembered per account, part of the record.

Only what is no part of the measured configuration may be learnt away: how usage is asked for, what a limit is called.
An endpoint that refuses a reasoning effort or a tool has refused the measurement, and that is an error.
"""

from __future__ import annotations

from typing import Self

import attrs

from providers.errors import ProviderError

_UNSUPPORTED = (
    "unsupported",
    "not supported",
    "not support",
    "unknown",
    "unrecognized",
    "unexpected",
    "not permitted",
    "extra_forbidden",
    "not allowed",
    "instead",
)
"""Words by which endpoints refuse a field as such, not its value."""


@attrs.frozen(kw_only=True)
class Quirks:
    """The base of each format's: one field a quirk, False until it is learnt."""

    def names(self) -> tuple[str, ...]:
        """Those that hold: a condition of what was measured."""
        return tuple(field.name for field in attrs.fields(type(self)) if getattr(self, field.name))

    def joined(self, other: Self) -> Self:
        """What either knows: two requests in flight may have learnt different things."""
        return attrs.evolve(self, **dict.fromkeys((*self.names(), *other.names()), True))

    def after(self, error: ProviderError, said: str) -> Self:
        """What is known after a refusal, whose body *said* this, of a request that was made by these; the same if it
        teaches nothing.
        """
        if error.status not in {400, 422} or error.kind != "invalid_request":
            return self
        said = said.lower()
        return self.learnt(said, refused=any(word in said for word in _UNSUPPORTED))

    def learnt(self, said: str, *, refused: bool) -> Self:  # noqa: ARG002 - what a format with quirks looks at
        """What this format learns from the words of an invalid request's refusal (in lower case); *refused* says that
        they speak of a field as such.
        """
        return self
