"""The request that `lab live` and `lab record` make of their flags."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import attrs

from orchestrator.cli.limits import LimitFlags


@attrs.frozen(kw_only=True)
class LabRequest:
    """What one command line asks for. No file has been read yet, and nothing is checked beyond single flags."""

    verb: Literal["live", "record"]
    capability: str | None
    fixtures: Sequence[str] | None
    targets: Sequence[str] | None
    """As given, each may hold several ids with commas between them; None is all."""
    lab_dir: Path | None
    config: Path | None
    """The daemon configuration; None is the lab's."""
    repeat: int | None
    """Runs of each fixture and target; None is what lab.yaml says."""
    seed: int = 0
    limits: LimitFlags
    out: str | None
    yes: bool
    """Whether backends are asked without a confirmation."""
