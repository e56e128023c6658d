import json
from collections import Counter
from typing import Any

import attrs
import pytest

from orchestrator.engine.kind import PlanRequest
from orchestrator.lab.cells import count_max_calls, list_live_cells
from orchestrator.lab.model import Expectation, Lab
from orchestrator.lab.plan import plan_sweep
from orchestrator.lab.running import build_settings
from orchestrator.lab.selection import select_cases
from providers.decisions.model import ExecNode, HttpNode, ModelNode, RuleNode
from store.rows import Caps, CellRow, NewSweep
from tests.orchestrator.lab.labs import GUARD, JUDGE, SPECIALIST, fixture, gate, lab

LAB = lab(fixture("a"), fixture("b"), fixture("c", modes=("offline",)))


def planned(found: Lab = LAB, k: int = 3, mode: str = "live", **given: Any) -> NewSweep:
    cells = tuple(list_live_cells(found.daemon.capabilities, select_cases(found)))
    settings = build_settings(found, cells, mode=mode, caps=Caps(calls=50), k=k, **given)
    planning = PlanRequest(name="n", command="lab live", purpose="sweep", planned_at=1, conditions={})
    return plan_sweep(found, cells, settings, planning)


def test_there_is_a_cell_for_each_fixture_and_target_with_its_own_version_and_model() -> None:
    sweep = planned(lab(fixture("a", version=4)))

    assert [(cell.case_id, cell.case_version, cell.variant, cell.target, cell.model) for cell in sweep.cells] == [
        ("gate/a", "4", "jev", "decision", "jev-1"),
        ("gate/a", "4", "nimble", "decision", "nimble-1"),
    ]
    assert (sweep.suite_id, sweep.mode, sweep.repetitions) == ("small", "live", 3)


def test_every_cell_is_run_as_often_as_asked_and_a_skipped_one_once() -> None:
    sweep = planned()
    times = Counter((sweep.cells[run.cell].case_id, sweep.cells[run.cell].variant) for run in sweep.runs)

    assert times == {
        ("gate/a", "jev"): 3,
        ("gate/a", "nimble"): 3,
        ("gate/b", "jev"): 3,
        ("gate/b", "nimble"): 3,
        ("gate/c", "jev"): 1,
        ("gate/c", "nimble"): 1,
    }
    assert [run.position for run in sweep.runs] == list(range(1, 15))
    assert len({(run.cell, run.repetition) for run in sweep.runs}) == 14


def test_targets_of_a_fixture_stand_side_by_side_and_repetitions_are_outermost() -> None:
    sweep = planned()

    assert [run.repetition for run in sweep.runs] == sorted(run.repetition for run in sweep.runs)
    for pair in {run.pair for run in sweep.runs}:
        cells = [sweep.cells[run.cell] for run in sweep.runs if run.pair == pair]
        assert len({cell.case_id for cell in cells}) == 1


def test_the_seed_orders_the_runs() -> None:
    def order(seed: int) -> list[int]:
        return [run.cell for run in planned(lab(*map(fixture, "abcdefgh")), seed=seed).runs]

    assert order(1) == order(1)
    assert order(1) != order(2)


def changed(**given: Any) -> CellRow:
    return planned(lab(fixture("a", **given))).cells[0]


@pytest.mark.parametrize(
    "other",
    [
        {"command": "ls -l"},
        {"replay": {"judge": {"answer": None}}},
        {"expect": (Expectation(cel="true", why="anything goes"),)},
    ],
)
def test_content_is_in_the_digest_and_not_in_the_lineage(other: dict[str, Any]) -> None:
    before, after = changed(), changed(**other)

    assert before.digest != after.digest
    assert before.fingerprint == after.fingerprint


def test_a_new_version_is_a_new_lineage() -> None:
    assert changed().fingerprint != changed(version=2).fingerprint


def test_a_changed_prompt_changes_the_configuration_alone() -> None:
    other = lab(fixture("a"), capability=gate(GUARD, attrs.evolve(JUDGE, prompt="Run {{ input.command }}?")))
    before, after = planned(lab(fixture("a"))).cells[0], planned(other).cells[0]

    assert before.config_hash != after.config_hash
    assert before.fingerprint == after.fingerprint
    assert json.loads(before.document)["content"] == json.loads(after.document)["content"]


def test_modes_are_lineages_of_their_own() -> None:
    live, offline = (planned(lab(fixture("a")), mode=mode).cells[0] for mode in ("live", "offline"))

    assert live.fingerprint != offline.fingerprint


HEARD = attrs.evolve(JUDGE, id="heard", decides=False)
AFTER = RuleNode(id="after", when="true", decision={"verdict": "ask"})
VENDOR = HttpNode(id="vendor", url="http://127.0.0.1:9/", fallback="gate")


@pytest.mark.parametrize(
    ("flow", "calls"),
    [
        ((GUARD,), 0),
        ((GUARD, JUDGE), 1),
        ((SPECIALIST, JUDGE), 2),
        ((VENDOR, SPECIALIST, JUDGE), 3),
        ((JUDGE, attrs.evolve(JUDGE, id="never")), 1),
        ((HEARD, AFTER), 1),
        ((HEARD, GUARD, JUDGE), 2),
    ],
)
def test_the_most_calls_of_a_flow_are_those_of_its_longest_way(
    flow: tuple[ExecNode | HttpNode | ModelNode | RuleNode, ...], calls: int
) -> None:
    assert count_max_calls(gate(*flow)) == calls
