"""The request that `lab live` and `lab record` build from their flags."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import attrs

from orchestrator.cli.limits import LimitFlags


@attrs.frozen(kw_only=True)
class LabRequest:
    """The flags of one command line. No file has been read yet, and only single flags have been checked."""

    verb: Literal["live", "record"]
    capability: str | None
    fixtures: Sequence[str] | None
    targets: Sequence[str] | None
    """As given: each may hold several ids with commas between them. None is all."""
    lab_dir: Path | None
    config: Path | None
    """The daemon configuration; None is the lab's."""
    repeat: int | None
    """Runs of each fixture and target; None is the number in lab.yaml."""
    seed: int = 0
    limits: LimitFlags
    out: str | None
    yes: bool
    """True: call backends without asking for confirmation."""
