"""The verifier `most-lines`: a file has at most so many lines."""

from __future__ import annotations

from typing import ClassVar

import attrs

from providers.system.paths import PathEscapes, resolve_inside
from store.rows import Verdict
from verifiers.base import Evidence


@attrs.frozen(kw_only=True)
class MostLines:
    """Passes when the file at `path` has at most `max_lines` lines."""

    api_version: ClassVar[int] = 1
    kind: ClassVar[str] = "most-lines"
    id: str
    path: str
    max_lines: int = attrs.field(validator=attrs.validators.ge(0))

    async def verify(self, evidence: Evidence) -> Verdict:
        """Judge."""
        try:
            lines = len(resolve_inside(evidence.workspace, self.path).read_bytes().splitlines())
        except (PathEscapes, OSError) as error:
            return Verdict(verifier=self.id, kind=self.kind, verdict="error", detail={"problem": str(error)})
        holds = lines <= self.max_lines
        return Verdict(verifier=self.id, kind=self.kind, verdict="pass" if holds else "fail", detail={"lines": lines})
