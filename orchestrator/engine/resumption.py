"""Outcomes that `resume` runs again without a flag."""

from __future__ import annotations

RESUMED_REASONS = frozenset({"interrupted", "budget", "provider_blocked"})
"""Reasons of outcomes that `resume` runs again."""
