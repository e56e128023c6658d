"""The generated suites as files: the content of each file by its path in the suite's directory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from orchestrator.suite.stress.buried import make_manual_task, make_reports_task
from orchestrator.suite.stress.chains import make_format_rule_task, make_rules_task
from orchestrator.suite.stress.edits import make_edits_task
from orchestrator.suite.stress.frozen import make_frozen_task
from orchestrator.suite.stress.overflow import make_overflow_task
from orchestrator.suite.stress.task import GeneratedTask
from orchestrator.suite.stress.totals import make_totals_task
from store.events import Json

LONG_CONTEXT = "long-context"
STRESS = "long-context-stress"

COMMITTED_INSTANCES = 5
MAX_INSTANCES = 99
"""Largest number of instances, which two digits number."""

LOWERED_CONTEXT_CHARS = 24_000
"""Context limit under which every task of the stress suite is compacted at least twice."""

SEED = 4100
"""Seed of the first task; the instances of chain-walk-rules use the numbers after `RULES_SEED`."""
RULES_SEED = 5000


def make_long_context() -> dict[str, str]:
    """Make the files of the suite `long-context`."""
    tasks = [make_manual_task(SEED), make_reports_task(SEED + 1), make_overflow_task(SEED + 2)]
    return _render_files(
        LONG_CONTEXT, "1.0.0", "Facts in long files, and in the part of an output that was cut.", tasks
    )


def make_long_context_stress(instances: int = COMMITTED_INSTANCES) -> dict[str, str]:
    """Make the files of `long-context-stress` with *instances* of chain-walk-rules; the first are always the same.

    Raises:
        ValueError: *instances* is below `COMMITTED_INSTANCES` or above `MAX_INSTANCES`.
    """
    if not COMMITTED_INSTANCES <= instances <= MAX_INSTANCES:
        raise ValueError(f"expected {COMMITTED_INSTANCES} to {MAX_INSTANCES} instances, got {instances}")
    tasks = [
        make_format_rule_task(SEED + 10),
        make_edits_task(SEED + 11),
        make_frozen_task(SEED + 12),
        make_totals_task(SEED + 13),
        *(make_rules_task(number, RULES_SEED + number) for number in range(1, instances + 1)),
    ]
    description = "Long tasks that lean on what was said early; they discriminate only where the context is compacted."
    files = _render_files(STRESS, "1.1.0", description, tasks)
    variants: Json = [
        {"id": "baseline", "overrides": {}},
        {"id": "lowered", "overrides": {"limits.maxContextChars": LOWERED_CONTEXT_CHARS}},
    ]
    return {**files, "compare.json": _render_json({"suite": STRESS, "variants": variants})}


def _render_files(suite_id: str, version: str, description: str, tasks: Sequence[GeneratedTask]) -> dict[str, str]:
    suite = {
        "schemaVersion": 1,
        "suiteId": suite_id,
        "suiteVersion": version,
        "description": description,
        "tasks": [task.to_suite_entry() for task in tasks],
    }
    files = {"suite.json": _render_json(suite)}
    for task in tasks:
        files[f"scripts/{task.id}.json"] = _render_json(task.to_script())
        files |= {f"fixtures/{task.id}/{path}": content for path, content in task.fixture.items()}
    return files


def _render_json(document: Mapping[str, Json]) -> str:
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"
