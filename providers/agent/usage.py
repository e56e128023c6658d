"""What the turns of a run used, as far as the provider reported it."""

from __future__ import annotations

import attrs

from providers.usage import Usage


@attrs.define
class Tally:
    """Sums usage over turns."""

    turns: int = 0
    unreported: int = 0
    """Turns without input or without output tokens."""
    _sums: dict[str, int] = attrs.field(factory=dict[str, int])
    _reports: dict[str, int] = attrs.field(factory=dict[str, int])

    def add(self, usage: Usage | None) -> None:
        """Count one turn."""
        self.turns += 1
        reported = usage.reported() if usage is not None else {}
        for name, tokens in reported.items():
            self._sums[name] = self._sums.get(name, 0) + tokens
            self._reports[name] = self._reports.get(name, 0) + 1
        if not {"input", "output"} <= reported.keys():
            self.unreported += 1

    @property
    def tokens(self) -> int:
        """Input and output tokens reported so far: what has certainly been used, at least."""
        return self._sums.get("input", 0) + self._sums.get("output", 0)

    @property
    def usage(self) -> Usage | None:
        """The sums; a field is None unless every turn reported it, the whole unless one field was."""
        complete = {name: self._sums[name] for name, reports in self._reports.items() if reports == self.turns}
        return Usage(**complete) if complete else None

    @property
    def cached_partial(self) -> bool:
        """Some turns reported cached input and some did not."""
        return 0 < self._reports.get("cached", 0) < self.turns
