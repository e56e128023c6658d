"""The verb `status`."""

from __future__ import annotations


def status() -> None:
    """To be built."""
