"""Arms made by hand, and sweeps of two variants."""

from __future__ import annotations

from typing import Any

import attrs

from orchestrator.comparison.arm import Arm, Counts, sum_counts

CONDITIONS = {
    "suiteId": "shapes",
    "suiteVersion": "1.2.0",
    "mode": "live",
    "model": "m-1",
    "provider": "scripted",
    "k": 5,
    "configHash": "c0ffee",
    "compaction": {"auto": True, "threshold": 0.85, "maxContextChars": 800_000},
}


def counts(passes: int = 0, judged: int = 5, **more: Any) -> Counts:
    """Judged runs that took 100 tokens in, 20 out and a second each."""
    usual: dict[str, Any] = {
        "planned": judged,
        "budget_exceeded": 0,
        "errored": 0,
        "skipped": 0,
        "unfinished": 0,
        "input_tokens": 100 * judged if judged else None,
        "output_tokens": 20 * judged if judged else None,
        "wall_total_ms": 1000.0 * judged if judged else None,
        "wall_median_ms": 1000.0 if judged else None,
        "cached_ratio": None,
        "cached_runs": 0,
        "cost_usd": None,
        "compacted": 0,
        "incidents": {},
    }
    return Counts(passes=passes, judged=judged, **(usual | more))


def arm(
    tasks: dict[str, Any],
    *,
    name: str = "a",
    conditions: dict[str, Any] | None = None,
    whole: Counts | None = None,
    **more: Any,
) -> Arm:
    """An arm whose tasks are counts, or (passes, judged)."""
    made = {task: found if isinstance(found, Counts) else counts(*found) for task, found in tasks.items()}
    usual: dict[str, Any] = {
        "name": name,
        "sweep": name,
        "variant": "",
        "suite_id": "shapes",
        "suite_version": "1.2.0",
        "mode": "live",
        "content": None,
    }
    told = usual | more
    said = {**CONDITIONS, "mode": told["mode"], **(conditions or {})}
    together = whole or attrs.evolve(sum_counts(made.values()), wall_median_ms=1000.0)
    return Arm(conditions=said, tasks=made, whole=together, **told)
