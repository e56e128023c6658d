"""Installation: the path of the bundled suites, and warnings of problems that could spoil a measurement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

BUNDLED = Path(__file__).resolve().parent.parent / "suites"
"""Directory of the bundled suites, beside the package in a checkout and in an installation."""

DISTRIBUTION = "evalctl-lab"
TOP_PACKAGES = ("orchestrator", "providers", "store", "suites", "verifiers")
"""Our top-level packages: plain words that another distribution may use, too."""


def list_warnings() -> list[str]:
    """List all warnings about this installation."""
    import importlib.metadata  # noqa: PLC0415 - slow to import, and only `evalctl suites` needs it
    import sqlite3  # noqa: PLC0415 - (the same)

    return [
        *sqlite_warnings(sqlite3.sqlite_version_info),
        *clash_warnings(importlib.metadata.packages_distributions()),
    ]


def sqlite_warnings(version: tuple[int, ...]) -> list[str]:
    """Warn of SQLite versions with the WAL-reset race: before 3.44.6, 3.50.0 to 3.50.6, 3.51.0 to 3.51.2."""
    racy = version < (3, 44, 6) or (3, 45) <= version < (3, 50, 7) or (3, 51) <= version < (3, 51, 3)
    if not racy:
        return []
    spelled = ".".join(str(number) for number in version)
    problem = f"SQLite {spelled} can lose a commit when two processes reset the write-ahead log at the same moment; "
    remedy = "evalctl's own lock keeps its processes from doing so. Fixed in 3.44.6, 3.50.7 and 3.51.3."
    return [problem + remedy]


def clash_warnings(owners: Mapping[str, Iterable[str]]) -> list[str]:
    """Warn if another distribution installs one of our packages: Python imports the first one on its path."""
    warnings = []
    for folder in TOP_PACKAGES:
        others = sorted({owner for owner in owners.get(folder, ()) if _normalize_name(owner) != DISTRIBUTION})
        if others:
            warnings.append(
                f"the folder name {folder!r} is also installed by {', '.join(others)}; "
                "install evalctl in an environment of its own (pipx, uv tool)"
            )
    return warnings


def _normalize_name(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
