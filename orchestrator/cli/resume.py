"""The verb `resume`."""

from __future__ import annotations


def resume() -> None:
    """To be built."""
