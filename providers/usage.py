"""Token usage of a request, as its provider reported it."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Usage:
    """Tokens as the provider reported them. `input` holds cached ones, `output` holds reasoning."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    cache_write_1h: int | None = None
    """Those of `cache_write` that are kept for an hour, which some providers charge otherwise."""

    def reported(self) -> dict[str, int]:
        """The fields that were reported."""
        return {name: tokens for name in _USAGE if (tokens := getattr(self, name)) is not None}


_USAGE = tuple(field.name for field in attrs.fields(Usage))
