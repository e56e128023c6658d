"""The conditions of measurement of a lab: those of its decision flows and backends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.reports.conditions import FLOW, as_mapping, collapse_equal, conditions_of
from store.documents.canonical import compute_digest
from store.events import Json
from store.rows import CellRecord, SweepRow

AGENT_CONDITIONS = frozenset(
    {"provider", "endpoint", "contextWindow", "compaction", "fetchPrivate", "grants", "sandbox"}
)
"""Conditions of an agent. Older versions stored placeholders for them with a lab's sweeps."""


def read_conditions(
    sweep: SweepRow, cells: Sequence[CellRecord], versions: Sequence[str], models: Sequence[str]
) -> dict[str, Json]:
    """Read the conditions of a lab's sweep; like `orchestrator.reports.conditions.conditions_of`."""
    shared = conditions_of(sweep, cells, versions, models)
    conditions = {
        name: value for name, value in shared.items() if name not in AGENT_CONDITIONS
    } | _read_flow_conditions(sweep.conditions, cells)
    return {name: value for name, value in conditions.items() if value is not None}


def _read_flow_conditions(stored: Mapping[str, Json], cells: Sequence[CellRecord]) -> dict[str, Json]:
    """Return the subject and its targets; of a single target only its backend."""
    targets = as_mapping(as_mapping(stored.get("lab")).get("targets"))
    names = {cell.variant for cell in cells}
    hashes = sorted({cell.config_hash for cell in cells})
    return {
        "subject": FLOW,
        # the target `replay` calls no model
        "model": collapse_equal(cell.model for cell in cells if cell.model),
        "backend": as_mapping(targets.get(names.pop())).get("backend") if len(names) == 1 else None,
        # one for each capability and target
        "configHash": hashes[0] if len(hashes) == 1 else compute_digest(hashes).hex(),
        "targets": dict(targets) or None if len(names) != 1 else None,
    }
