"""Which outcomes `resume` runs again without being asked for it."""

from __future__ import annotations

RESUMED_REASONS = frozenset({"interrupted", "budget", "provider_blocked"})
"""Reasons of such outcomes."""
