"""Which outcomes `resume` runs again without being asked for it."""

from __future__ import annotations

AGAIN = frozenset({"interrupted", "budget", "provider_blocked"})
"""Reasons of such outcomes."""
