"""The verifier `tree-diff-within`: the run changed, added or deleted nothing outside `allowed`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import ClassVar

import attrs

from store.rows import Verdict
from verifiers.base import Evidence

MAX_LISTED_PATHS = 50
"""Largest number of paths that the detail lists; the rest are only counted."""


@attrs.frozen(kw_only=True)
class TreeDiffWithin:
    """Passes if `allowed` covers every difference to the fixture.

    An entry is an exact path, a directory (`src/` covers everything below it), or a pattern: `*` and `?` stay within
    one path segment, `**` crosses them; all other characters, including brackets, are literal. The differences were
    recorded before any verifier ran, so files that a check writes do not count against the run.
    """

    kind: ClassVar[str] = "tree-diff-within"
    only_looks: ClassVar[bool] = True
    id: str
    allowed: tuple[str, ...] = attrs.field(converter=tuple[str, ...])

    async def verify(self, evidence: Evidence) -> Verdict:
        """Judge the differences. Never `error`: they are part of the evidence."""
        outside = [change for change in evidence.changes if not covers_path(self.allowed, change.path)]
        if not outside:
            return Verdict(verifier=self.id, kind=self.kind, verdict="pass")
        return Verdict(
            verifier=self.id,
            kind=self.kind,
            verdict="fail",
            detail={
                "reason": "outside",
                "outside": [{"path": change.path, "change": change.change} for change in outside[:MAX_LISTED_PATHS]],
                "count": len(outside),
            },
        )


def covers_path(allowed: Iterable[str], path: str) -> bool:
    """Return whether an entry of *allowed* covers *path* (relative, with `/`)."""
    return any(_entry_covers(entry.removeprefix("./"), path) for entry in allowed)


def _entry_covers(entry: str, path: str) -> bool:
    if entry == path:  # first, so that a name with a star in it can be allowed literally
        return True
    if "*" not in entry and "?" not in entry:
        return entry.endswith("/") and path.startswith(entry)
    return _compile_entry(entry).matches(path)


@attrs.frozen(kw_only=True)
class _Glob:
    """A pattern as a nondeterministic automaton, whose set of active states is an integer with one bit per state.

    Matching takes time linear in the path, whatever the pattern: an agent chooses the names of its files, and a
    backtracking match of several stars takes minutes for some.
    """

    final: int
    """The state after the whole pattern."""
    letters: Mapping[str, int]
    """States that a letter moves to the next state."""
    one_letter: int = 0
    """States of `?`."""
    segment: int = 0
    """States of `*`, which stay active until the next `/`."""
    anything: int = 0
    """States of `**` and `**/`, which stay active."""
    slash: int = 0
    """States of `**/`, which a `/` moves to the next state."""
    skips: int = 0
    """States that may be left for the next one without a letter."""
    double_skips: int = 0
    """States that may be left for the one after the next without a letter: `**/` may match nothing."""

    def matches(self, path: str) -> bool:
        """Return whether the pattern matches the whole of *path*."""
        active = self._follow_skips(1)
        for letter in path:
            moved = active & self.letters.get(letter, 0)
            if letter == "/":
                stay, moved = active & self.anything, moved | (active & self.slash)
            else:
                stay, moved = active & (self.anything | self.segment), moved | (active & self.one_letter)
            active = self._follow_skips(stay | (moved << 1))
            if not active:
                return False
        return bool(active >> self.final & 1)

    def _follow_skips(self, active: int) -> int:
        while True:
            more = active | (active & self.skips) << 1 | (active & self.double_skips) << 2
            if more == active:
                return active
            active = more


@lru_cache(maxsize=1024)
def _compile_entry(entry: str) -> _Glob:
    if entry.endswith("/"):
        entry += "**"
    letters: dict[str, int] = {}
    masks: Counter[str] = Counter()
    state = 0
    for part in filter(None, re.split(r"(\*\*/|\*\*|\*|\?)", entry)):
        bit = 1 << state
        if part == "**/":
            masks.update(skips=bit, double_skips=bit, anything=bit << 1, slash=bit << 1)
            state += 2
        elif part in ("**", "*"):
            masks.update({"anything" if part == "**" else "segment": bit, "skips": bit})
            state += 1
        elif part == "?":
            masks.update(one_letter=bit)
            state += 1
        else:
            for letter in part:
                letters[letter] = letters.get(letter, 0) | 1 << state
                state += 1
    return _Glob(final=state, letters=letters, **masks)
