"""The nouns of a sweep of an agent suite."""

from __future__ import annotations

from orchestrator.engine.nouns import KindNouns

NOUNS = KindNouns(subject="suite", case="task", variant="variant", verb="run")
