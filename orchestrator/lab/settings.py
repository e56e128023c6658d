"""Settings of a lab's sweep: the engine's terms and the targets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from orchestrator.engine.kind import Terms


@attrs.frozen(kw_only=True)
class LabSettings(Terms):
    """Settings of a lab's sweep. Its providers and models stand in the lab's own files."""

    targets: tuple[str, ...] = ()
    """Targets of the plan, in their order; the first is the baseline of comparisons."""

    @classmethod
    def read_values(cls, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Read the stored values of known fields. Older versions stored targets as variants without overrides."""
        targets = stored.get("targets") or [variant["id"] for variant in stored.get("variants", ())]
        return super().read_values(stored) | {"targets": tuple(targets)}
