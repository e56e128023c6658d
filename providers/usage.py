"""Token usage of a request, as its provider reported it."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Usage:
    """Token usage as the provider reported it. `input` includes cached tokens, `output` includes reasoning tokens."""

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    cache_write_1h: int | None = None
    """The part of `cache_write` with a lifetime of one hour, which some providers charge at another price."""

    def reported(self) -> dict[str, int]:
        """The reported fields by name."""
        return {name: tokens for name in _USAGE if (tokens := getattr(self, name)) is not None}


_USAGE = tuple(field.name for field in attrs.fields(Usage))
