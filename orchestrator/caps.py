"""What a sweep may spend: the caps it was planned with, as raised since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from store.rows import Caps, SweepRow

if TYPE_CHECKING:
    from store.records import ControlRow


def caps_of(sweep: SweepRow, controls: Iterable[ControlRow]) -> Caps:
    """The caps that hold now; a `raise_cap` names new totals, and only of the caps it changes."""
    settings = sweep.conditions.get("settings")
    planned = settings.get("caps") if isinstance(settings, Mapping) else None
    caps = _with(Caps(), planned if isinstance(planned, Mapping) else {})
    for row in controls:
        if row.verb == "raise_cap":
            caps = _with(caps, row.payload)
    return caps


def _with(caps: Caps, changes: Mapping[str, Any]) -> Caps:
    names = [field.name for field in attrs.fields(Caps)]
    return attrs.evolve(caps, **{name: int(changes[name]) for name in names if changes.get(name) is not None})
