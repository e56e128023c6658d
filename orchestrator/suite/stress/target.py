"""Where generated suites may be written: in a checkout or a directory of the user's, never in an installed package."""

from __future__ import annotations

from pathlib import Path

from orchestrator.installation import BUNDLED
from orchestrator.suite.stress.suites import STRESS
from store.errors import UsageError

INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Directories that packages are installed in."""


def is_checkout(suites: Path = BUNDLED) -> bool:
    """Whether the bundled *suites* lie in a source checkout, where they may be written again."""
    return (suites.parent / "pyproject.toml").is_file() and not INSTALLED & {*suites.resolve().parts}


def find_bundled_directory(suites: Path = BUNDLED) -> Path:
    """The directory of the bundled *suites*, in order to write there.

    Raises:
        UsageError: they are part of an installed package.
    """
    if not is_checkout(suites):
        raise UsageError(
            "the bundled suites are part of an installed package, which evalctl does not write to",
            "Pass --out DIR to write a suite of your own.",
        )
    return suites


def check_own(directory: Path, suites: Path = BUNDLED) -> None:
    """Refuse a *directory* that no generated suite may be written to.

    Raises:
        UsageError: it belongs to an installed package, or the suite could not be told from a bundled one by its name.
    """
    place, home = directory.resolve(), suites.resolve()
    if INSTALLED & {*place.parts} or (not is_checkout(suites) and place.is_relative_to(home)):
        raise UsageError(f"{directory} is part of an installed package, which evalctl does not write to")
    if place == home / STRESS:
        return
    if place.is_relative_to(home):
        raise UsageError(f"{directory} lies among the bundled suites", f"Only {home / STRESS} is generated there.")
    if (suites / place.name).is_dir():
        raise UsageError(
            f"a bundled suite has the directory name {place.name!r}, which must tell suites with equal ids apart",
            f"Choose another name: --out {directory.with_name(f'{place.name}-more')}",
        )
