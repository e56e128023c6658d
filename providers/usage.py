"""Token usage of requests, as their provider reported it, and its sum."""

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

    def to_json(self) -> dict[str, int]:
        """The reported fields by name."""
        return {name: tokens for name in _USAGE_FIELDS if (tokens := getattr(self, name)) is not None}


_USAGE_FIELDS = tuple(field.name for field in attrs.fields(Usage))


@attrs.define
class UsageSum:
    """Token usage summed over answers, as far as each was reported."""

    turns: int = 0
    unreported: int = 0
    """Number of turns without a report of input or output tokens."""
    _sums: dict[str, int] = attrs.field(factory=dict[str, int])
    _reports: dict[str, int] = attrs.field(factory=dict[str, int])

    def add(self, usage: Usage | None) -> None:
        """Add one turn."""
        self.turns += 1
        reported = usage.to_json() if usage is not None else {}
        for name, tokens in reported.items():
            self._sums[name] = self._sums.get(name, 0) + tokens
            self._reports[name] = self._reports.get(name, 0) + 1
        if not {"input", "output"} <= reported.keys():
            self.unreported += 1

    @property
    def tokens(self) -> int:
        """Input and output tokens reported so far: a lower bound of the real usage."""
        return self._sums.get("input", 0) + self._sums.get("output", 0)

    @property
    def usage(self) -> Usage | None:
        """The sums. A field is None unless every turn reported it; the whole is None if no field has a sum."""
        complete = {name: self._sums[name] for name, reports in self._reports.items() if reports == self.turns}
        return Usage(**complete) if complete else None

    @property
    def cached_partial(self) -> bool:
        """True if some turns reported cached input and others did not."""
        return 0 < self._reports.get("cached", 0) < self.turns
