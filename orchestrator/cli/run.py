"""The verb `run`."""

from __future__ import annotations


def run() -> None:
    """To be built."""
