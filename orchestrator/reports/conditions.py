"""The conditions of measurement, under the names that every report uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from store.events import Json
from store.rows import CellRecord, SweepRow

FLOW = "decision flow"
"""Value of `subject` in the conditions of a lab."""


def conditions_of(
    sweep: SweepRow, cells: Sequence[CellRecord], versions: Sequence[str], models: Sequence[str]
) -> dict[str, Json]:
    """Return the conditions of *sweep*, without paths and credentials; conditions that do not apply are absent.

    Args:
        sweep: the stored sweep.
        cells: its cells, or those of one variant.
        versions: versions of the harness that worked on it.
        models: models that answered.
    """
    stored, settings = sweep.conditions, as_mapping(sweep.conditions.get("settings"))
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
        "grants": _granted_effects(as_mapping(settings.get("grants"))),
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
    """Return the rates of a sweep in USD per million input and output tokens; None unless both were given."""
    settings = as_mapping(conditions.get("settings"))
    input_rate, output_rate = settings.get("input_rate"), settings.get("output_rate")
    if input_rate is None or output_rate is None:
        return None
    return Decimal(str(input_rate)), Decimal(str(output_rate))


def format_time(microseconds: int) -> str:
    """Format microseconds UTC in ISO 8601: 2026-11-30T10:15:00.000Z."""
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def collapse_equal(values: Iterable[str]) -> Json:
    """Return the value if all *values* are equal, otherwise a sorted list of them; None if there are none."""
    different = sorted(set(values))
    return different[0] if len(different) == 1 else different or None


def _variant_conditions(cells: Sequence[CellRecord], settings: Mapping[str, Json]) -> dict[str, Json]:
    """Return the variants in order, the baseline first; for a single variant also its overrides."""
    names = list(dict.fromkeys(cell.variant for cell in cells))
    if names in ([""], []):
        return {}
    planned = _planned_variants(settings)
    ids = [variant["id"] for variant in planned]
    if len(names) == 1 and len(ids) != 1:
        overrides = next((variant["overrides"] for variant in planned if variant["id"] == names[0]), None)
        return {"variant": names[0], "overrides": overrides}
    return {"variants": sorted(names, key=lambda name: (ids.index(name) if name in ids else len(ids), name))}


def _planned_variants(settings: Mapping[str, Json]) -> Sequence[Mapping[str, Json]]:
    """List the stored variants in order, each with `id` and `overrides`; a lab stores only the ids of its targets."""
    return settings.get("variants") or [{"id": name, "overrides": {}} for name in settings.get("targets", ())]


COMPACTION = {
    "compaction.auto": ("auto", "compaction_auto"),
    "compaction.threshold": ("threshold", "compaction_threshold"),
    "compaction.keepTurns": ("keepTurns", "compaction_keep_turns"),
    "compaction.maxOutputTokens": ("maxOutputTokens", "compaction_max_output_tokens"),
    "limits.maxContextChars": ("maxContextChars", "max_context_chars"),
}
"""Settings of compaction: measured key -> its name in reports, its field in the stored settings."""


def _compaction_settings(settings: Mapping[str, Json], cells: Sequence[CellRecord]) -> Json:
    """Return the settings of compaction, with a variant's overrides; None if the cells have several variants."""
    names = {cell.variant for cell in cells}
    if len(names) > 1:
        return None
    agent = as_mapping(settings.get("agent"))
    compaction = {name: agent[field] for name, field in COMPACTION.values() if field in agent}
    for variant in settings.get("variants", ()):
        if variant["id"] in names:
            compaction |= {
                COMPACTION[key][0]: value for key, value in variant["overrides"].items() if key in COMPACTION
            }
    return compaction or None


def _strip_to_origin(base_url: Any) -> Json:
    """Return scheme, host and port; the path and user of an endpoint may hold a secret."""
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
    caps = as_mapping(settings.get("caps"))
    document = {
        "maxCalls": caps.get("calls"),
        "maxTokens": caps.get("tokens"),
        "maxCostNusd": caps.get("nusd"),
        "maxWallS": settings.get("max_wall_s"),
    }
    return {name: value for name, value in document.items() if value is not None} or None


def as_mapping(value: Any) -> Mapping[str, Json]:
    """Return the stored *value* if it is an object, or else an empty one."""
    return value if isinstance(value, Mapping) else {}
