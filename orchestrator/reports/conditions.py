"""The conditions of measurement, as every report names them. A number without them is an anecdote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from store.events import Json
from store.rows import CellRecord, SweepRow

FLOW = "decision flow"
"""The subject of a lab's conditions."""


def conditions_of(
    sweep: SweepRow, cells: Sequence[CellRecord], versions: Sequence[str], models: Sequence[str]
) -> dict[str, Json]:
    """Conditions of *sweep*; *versions* are those of the processes that worked on it, *models* those that answered.

    What does not apply is absent. Neither paths nor credentials are among them.
    """
    stored, settings = sweep.conditions, _as_mapping(sweep.conditions.get("settings"))
    conditions: dict[str, Json] = {
        "suiteId": sweep.suite_id,
        "suiteVersion": collapse_equal(cell.suite_version for cell in cells),
        "harnessVersion": collapse_equal(versions) or stored.get("harnessVersion"),
        "configHash": collapse_equal(cell.config_hash for cell in cells),
        "provider": settings.get("provider"),
        "endpoint": _strip_to_origin(settings.get("base_url")),
        "model": collapse_equal(cell.model for cell in cells),
        "modelsAnswering": list(models) or None,
        "mode": sweep.mode,
        "k": sweep.repetitions,
        "seed": sweep.seed,
        **_variant_conditions(cells, settings),
        "plannedAt": format_time(sweep.planned_at),
        "purpose": sweep.purpose,
        "contextWindow": settings.get("context_window"),
        "compaction": _compaction_settings(settings, cells),
        "fetchPrivate": settings.get("fetch_private") or None,
        "concurrency": settings.get("concurrency"),
        "grants": _granted_effects(_as_mapping(settings.get("grants"))),
        "caps": _stored_caps(settings),
        "prices": settings.get("prices") or None,
        "inputRate": settings.get("input_rate"),
        "outputRate": settings.get("output_rate"),
        "git": stored.get("git"),
        "python": stored.get("python"),
        "system": stored.get("system"),
        "sandbox": stored.get("sandbox"),
    }
    return {name: value for name, value in conditions.items() if value is not None}


def rates_of(conditions: Mapping[str, Json]) -> tuple[Decimal, Decimal] | None:
    """USD per million input and output tokens, where the sweep was given both."""
    settings = _as_mapping(conditions.get("settings"))
    given = settings.get("input_rate"), settings.get("output_rate")
    if given[0] is None or given[1] is None:
        return None
    return Decimal(str(given[0])), Decimal(str(given[1]))


def format_time(microseconds: int) -> str:
    """A time as people and programs read it: 2026-11-30T10:15:00.000Z."""
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def collapse_equal(values: Iterable[str]) -> Json:
    """Reduce *values* to one where all are the same, to a sorted list of them otherwise; None without any."""
    different = sorted(set(values))
    return different[0] if len(different) == 1 else different or None


def _variant_conditions(cells: Sequence[CellRecord], settings: Mapping[str, Json]) -> dict[str, Json]:
    """The variants in their order, the baseline first; of a single one what it overrides, too."""
    names = list(dict.fromkeys(cell.variant for cell in cells))
    if names in ([""], []):
        return {}
    planned = _planned_variants(settings)
    order = [one["id"] for one in planned]
    if len(names) == 1 and len(order) != 1:
        overrides = next((one["overrides"] for one in planned if one["id"] == names[0]), None)
        return {"variant": names[0], "overrides": overrides}
    return {"variants": sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name))}


def _planned_variants(settings: Mapping[str, Json]) -> Sequence[Mapping[str, Json]]:
    """The stored variants in their order, each with `id` and `overrides`; a lab stores its targets by id alone."""
    return settings.get("variants") or [{"id": name, "overrides": {}} for name in settings.get("targets", ())]


COMPACTION = {
    "compaction.auto": ("auto", "compaction_auto"),
    "compaction.threshold": ("threshold", "compaction_threshold"),
    "compaction.keepTurns": ("keepTurns", "compaction_keep_turns"),
    "compaction.maxOutputTokens": ("maxOutputTokens", "compaction_max_output_tokens"),
    "limits.maxContextChars": ("maxContextChars", "max_context_chars"),
}
"""What decides when and how a context is compacted: measured key -> its name in reports, its field in settings."""


def _compaction_settings(settings: Mapping[str, Json], cells: Sequence[CellRecord]) -> Json:
    """The settings of compaction, a variant's where the cells are of one variant; None where they are several's."""
    names = {cell.variant for cell in cells}
    if len(names) > 1:
        return None
    agent = _as_mapping(settings.get("agent"))
    compaction = {name: agent[field] for name, field in COMPACTION.values() if field in agent}
    for one in settings.get("variants", ()):
        if one["id"] in names:
            compaction |= {COMPACTION[key][0]: value for key, value in one["overrides"].items() if key in COMPACTION}
    return compaction or None


def _strip_to_origin(base_url: Any) -> Json:
    """Scheme, host and port: an endpoint's path and user may hold what is nobody's business."""
    if not isinstance(base_url, str):
        return None
    try:
        parts = urlsplit(base_url)
    except ValueError:
        return "unreadable"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _granted_effects(grants: Mapping[str, Json]) -> Json:
    if not grants:
        return None
    return {
        "effects": sorted(grants.get("effects", ())),
        "readOnly": bool(grants.get("read_only")),
        "suiteFull": bool(grants.get("suite_full")),
    }


def _stored_caps(settings: Mapping[str, Json]) -> Json:
    caps = _as_mapping(settings.get("caps"))
    document = {
        "maxCalls": caps.get("calls"),
        "maxTokens": caps.get("tokens"),
        "maxCostNusd": caps.get("nusd"),
        "maxWallS": settings.get("max_wall_s"),
    }
    return {name: value for name, value in document.items() if value is not None} or None


def _as_mapping(value: Any) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {}
