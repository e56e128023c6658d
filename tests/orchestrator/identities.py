"""Identities of every cell that the bundled suites and the bundled lab plan, as lines of JSON.

`data/identities.jsonl` holds them as commit 0a8fad6 computed them. Results are found again by these values, and stored
ones can never be repaired: `fingerprint` must not change as long as `FINGERPRINT_VERSION` does not. `digest` and
`document` change with a suite's files (then its version changes, too) and with a new measured key of the agent; after
such a change `python -m tests.orchestrator.identities` writes the file anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from orchestrator.engine.kind import PlanRequest
from orchestrator.installation import BUNDLED
from orchestrator.lab.catalog import BUNDLED_LAB, place_of
from orchestrator.lab.cells import list_live_cells
from orchestrator.lab.formats.lab_yaml import read_lab
from orchestrator.lab.plan import plan_sweep as plan_lab
from orchestrator.lab.recordings.offline import plan_playback
from orchestrator.lab.running import build_settings
from orchestrator.lab.selection import select_cases
from orchestrator.measured import config_hash
from orchestrator.suite.effects import Grants
from orchestrator.suite.formats.suite_json import read_suite
from orchestrator.suite.plan import plan_sweep as plan_suite
from orchestrator.suite.settings import Settings
from orchestrator.suite.variant import Variant
from providers.base import AgentSettings
from store.rows import Caps, CellRow

RECORDED = Path(__file__).parent / "data" / "identities.jsonl"
SUITES = tuple(sorted(path.parent.name for path in BUNDLED.glob("*/suite.json")))
LAB = BUNDLED_LAB.name
VARIANTS = (Variant(id="baseline"), Variant(id="lowered", overrides={"limits.maxContextChars": 24000}))


def lines_of(name: str) -> list[str]:
    """One line for each cell of the bundled suite or lab *name*, in the plan's order."""
    cells = lab_cells() if name == LAB else suite_cells(name)
    return [json.dumps({"plan": plan, **described(cell)}, separators=(",", ":")) for plan, cell in cells]


def described(cell: CellRow) -> dict[str, Any]:
    return {"fingerprint": cell.fingerprint, "digest": cell.digest.hex(), "document": cell.document}


def suite_cells(name: str) -> Iterator[tuple[str, CellRow]]:
    suite = read_suite(BUNDLED / name, bundled=True)
    for mode in ("live", "replay"):
        for variants in ((), VARIANTS):
            settings = Settings(
                suite=suite.suite_id,
                provider="scripted",
                model="scripted-1",
                mode=mode,
                agent=AgentSettings(),
                config_hash=config_hash(AgentSettings()),
                variants=variants,
                grants=Grants(),
                caps=Caps(calls=1),
            )
            sweep = plan_suite(suite, suite.tasks, settings, name="n", command="run", planned_at=1, conditions={})
            for cell in sweep.cells:
                yield f"{name} {mode}{' variants' if variants else ''}", cell


def lab_cells() -> Iterator[tuple[str, CellRow]]:
    lab = read_lab(place_of(BUNDLED_LAB))
    chosen = select_cases(lab)
    offline = anyio.run(partial(plan_playback, lab, chosen)).cells
    live = tuple(list_live_cells(lab.daemon.capabilities, chosen))
    for mode, cells in (("offline", offline), ("live", live)):
        settings = build_settings(lab, cells, mode=mode, caps=Caps(calls=1))
        planning = PlanRequest(name="n", command="lab", purpose="sweep", planned_at=1, conditions={})
        for cell in plan_lab(lab, cells, settings, planning).cells:
            yield f"{LAB} {mode}", cell


if __name__ == "__main__":
    RECORDED.write_text("".join(f"{line}\n" for name in (*SUITES, LAB) for line in lines_of(name)))
