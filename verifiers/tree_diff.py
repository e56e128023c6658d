"""The verifier `tree-diff-within`: the run changed, added or deleted nothing outside `allowed`."""

from __future__ import annotations

import re
from collections.abc import Iterable
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
    return _compile_entry(entry).fullmatch(path) is not None


@lru_cache(maxsize=1024)
def _compile_entry(entry: str) -> re.Pattern[str]:
    if entry.endswith("/"):
        entry += "**"
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", entry)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(meaning.get(part, re.escape(part)) for part in parts), re.DOTALL)
