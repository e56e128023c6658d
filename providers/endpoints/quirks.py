"""Quirks: deviations of an endpoint, learnt from its refusals and stored as a condition of the measurement.

Only fields outside the measured configuration can be adapted: how usage is requested, or the name of a limit. An
endpoint that refuses a reasoning effort or a tool refuses the measurement itself, which is an error.
"""

from __future__ import annotations

from typing import Self

import attrs

from providers.base import Request
from providers.errors import ProviderError

_UNSUPPORTED_WORDS = (
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
"""Words with which endpoints refuse a field itself, not its value."""


@attrs.frozen(kw_only=True)
class Quirks:
    """Base class of a format's quirks: one boolean field per quirk, False until it is learnt."""

    def names(self) -> tuple[str, ...]:
        """The names of the learnt quirks."""
        return tuple(field.name for field in attrs.fields(type(self)) if getattr(self, field.name))

    def merge_with(self, other: Self) -> Self:
        """The union of two sets of quirks, since two concurrent requests may learn different ones."""
        return attrs.evolve(self, **dict.fromkeys((*self.names(), *other.names()), True))

    def learn_from_error(self, error: ProviderError, said: str, request: Request) -> Self:
        """The quirks after a refusal with the body *said* of *request*, which was encoded with these quirks; unchanged
        if the refusal teaches nothing.
        """
        if error.status not in {400, 422} or error.kind != "invalid_request":
            return self
        said = said.lower()
        return self.learn_from_words(said, request, refused=any(word in said for word in _UNSUPPORTED_WORDS))

    def learn_from_words(self, said: str, request: Request, *, refused: bool) -> Self:  # noqa: ARG002 - for formats
        """Learn from the refusal of an invalid *request*; for each format to override.

        *said* is the body in lower case; *refused* is True if its words refuse a field itself, not its value.
        """
        return self
