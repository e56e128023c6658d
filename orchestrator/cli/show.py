"""The verb `show`."""

from __future__ import annotations


def show() -> None:
    """To be built."""
