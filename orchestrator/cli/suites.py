"""The verbs `list` and `check`."""

from __future__ import annotations


def list_suites() -> None:
    """To be built."""


def check() -> None:
    """To be built."""
