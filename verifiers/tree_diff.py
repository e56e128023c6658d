"""The verifier `tree-diff-within`: nothing outside `allowed` was changed, added or deleted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import ClassVar

import attrs

from store.rows import Judgement
from verifiers.base import Evidence

NAMED = 50
"""Paths listed in the detail; the rest is counted."""


@attrs.frozen(kw_only=True)
class TreeDiffWithin:
    """Passes when every difference to the fixture is covered by `allowed`.

    An entry is an exact path, a directory (`src/` covers everything below it), or a pattern: `*` and `?` stay within
    one path segment, `**` crosses them; all other characters, brackets too, mean themselves. The differences were
    recorded before any verifier ran, so what a check writes does not count against the run.
    """

    kind: ClassVar[str] = "tree-diff-within"
    only_looks: ClassVar[bool] = True
    id: str
    allowed: tuple[str, ...] = attrs.field(converter=tuple)

    async def verify(self, evidence: Evidence) -> Judgement:
        """Judge. Never an error: the differences are part of the evidence."""
        outside = [change for change in evidence.changes if not covers(self.allowed, change.path)]
        if not outside:
            return Judgement(verifier=self.id, kind=self.kind, verdict="pass")
        return Judgement(
            verifier=self.id,
            kind=self.kind,
            verdict="fail",
            detail={
                "reason": "outside",
                "outside": [{"path": change.path, "change": change.change} for change in outside[:NAMED]],
                "count": len(outside),
            },
        )


def covers(allowed: Iterable[str], path: str) -> bool:
    """Whether an entry of *allowed* covers *path* (relative, with `/`)."""
    return any(_covers(entry.removeprefix("./"), path) for entry in allowed)


def _covers(entry: str, path: str) -> bool:
    if entry == path:  # first, so that a name with a star in it can be allowed as itself
        return True
    if "*" not in entry and "?" not in entry:
        return entry.endswith("/") and path.startswith(entry)
    return _pattern(entry).fullmatch(path) is not None


@lru_cache(maxsize=1024)
def _pattern(entry: str) -> re.Pattern[str]:
    if entry.endswith("/"):
        entry += "**"
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", entry)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meaning.get(part, re.escape(part)) for part in parts), re.DOTALL)
