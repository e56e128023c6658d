"""The catalog of labs: finds a lab's directory and its daemon configuration."""

from __future__ import annotations

from pathlib import Path

import attrs

from orchestrator.installation import BUNDLED
from store.errors import UsageError

LAB_FILE = "lab.yaml"
CONFIG_FILE = "config.yaml"
PROJECT_LAB = Path("config/lab")
"""The directory of a project's lab, relative to the project."""
BUNDLED_LAB = BUNDLED / "decision-lab"


@attrs.frozen(kw_only=True)
class LabPlace:
    """The place of a lab whose files are not read yet."""

    root: Path
    """Its directory, as messages name it."""
    config: Path
    """The daemon configuration's file, as messages name it. The lab's own configuration may be missing."""
    bundled: bool
    """The lab is part of the installation, where nothing is written."""


def find_lab(lab_dir: Path | None, config: Path | None) -> LabPlace:
    """Find the lab in *lab_dir*, else in `config/lab` of the working directory, else the bundled one.

    *config* replaces the lab's own `config.yaml`.

    Raises:
        UsageError: the lab or the configuration does not exist.
    """
    root = lab_dir if lab_dir is not None else PROJECT_LAB if PROJECT_LAB.exists() else BUNDLED_LAB
    name = f"--lab-dir {root}" if lab_dir is not None else str(root)
    try:
        if not root.is_dir():
            raise UsageError(f"{name}: {'not a directory' if root.exists() else 'no such directory'}")
        if not (root / LAB_FILE).exists():
            raise UsageError(
                f"{name}: no lab here", f"Expected a {LAB_FILE} in it, beside {CONFIG_FILE} and fixtures/."
            )
        if config is not None and not config.is_file():
            raise UsageError(f"--config {config}: {'not a file' if config.exists() else 'no such file'}")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{name}: cannot be read: {reason}") from error
    return place_of(root, config)


def place_of(root: Path, config: Path | None = None) -> LabPlace:
    """Return the place of the lab in *root* without checking that it exists."""
    bundled = root.resolve().is_relative_to(BUNDLED)
    return LabPlace(root=root, config=config if config is not None else root / CONFIG_FILE, bundled=bundled)
