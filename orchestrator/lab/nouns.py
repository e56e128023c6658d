"""The nouns of a sweep of a decision lab."""

from __future__ import annotations

from orchestrator.engine.nouns import KindNouns

NOUNS = KindNouns(
    subject="lab",
    case="fixture",
    variant="target",
    changed_hint=" A higher budget is given to resume itself: --max-calls, --max-cost-usd.",
)
