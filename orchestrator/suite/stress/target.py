"""Target directories of generated suites: a checkout or a directory of the user, never an installed package."""

from __future__ import annotations

from pathlib import Path

from orchestrator.installation import BUNDLED
from orchestrator.suite.stress.suites import STRESS
from store.errors import UsageError

INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Names of directories that contain installed packages."""


def is_checkout(suites: Path = BUNDLED) -> bool:
    """Return whether the bundled *suites* are in a source checkout, where they may be overwritten."""
    return (suites.parent / "pyproject.toml").is_file() and not INSTALLED & {*suites.resolve().parts}


def find_bundled_directory(suites: Path = BUNDLED) -> Path:
    """Return the directory of the bundled *suites* for writing.

    Raises:
        UsageError: the suites are part of an installed package.
    """
    if not is_checkout(suites):
        raise UsageError(
            "the bundled suites are part of an installed package, which evalctl does not write to",
            "Pass --out DIR to write a suite of your own.",
        )
    return suites


def check_own(directory: Path, suites: Path = BUNDLED) -> None:
    """Refuse a *directory* in which a generated suite must not be written.

    Raises:
        UsageError: the directory belongs to an installed package, or has the name of a bundled suite.
    """
    target, home = directory.resolve(), suites.resolve()
    if INSTALLED & {*target.parts} or (not is_checkout(suites) and target.is_relative_to(home)):
        raise UsageError(f"{directory} is part of an installed package, which evalctl does not write to")
    if target == home / STRESS:
        return
    if target.is_relative_to(home):
        raise UsageError(f"{directory} lies among the bundled suites", f"Only {home / STRESS} is generated there.")
    if (suites / target.name).is_dir():
        raise UsageError(
            f"a bundled suite has the directory name {target.name!r}, which must tell suites with equal ids apart",
            f"Choose another name: --out {directory.with_name(f'{target.name}-more')}",
        )
