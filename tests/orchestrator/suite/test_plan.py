import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from orchestrator.measured import config_hash
from orchestrator.suite.config import Config
from orchestrator.suite.effects import Grants
from orchestrator.suite.model import Suite, Task, TaskBudget
from orchestrator.suite.plan import plan_sweep, select_tasks
from orchestrator.suite.settings import Settings
from orchestrator.suite.variant import Variant
from providers.base import AgentSettings
from store.errors import UsageError
from store.rows import Caps, NewSweep
from verifiers.registry import find_verifier


def task(name: str, **given: Any) -> Task:
    contains = find_verifier("file-contains")(id="c", path="a.txt", text="x")
    values: dict[str, Any] = {
        "prompt": "p",
        "fixture": f"fixtures/{name}",
        "budget": TaskBudget(max_turns=1, max_wall_ms=1),
    } | given
    return Task(id=name, verifiers=(contains,), **values)


SUITE = Suite(
    suite_id="s",
    suite_version="1.0.0",
    description="",
    tasks=(task("a"), task("b")),
    root=Path("/nowhere"),
    bundled=False,
    content={"suite.json": "00", "fixtures/a/a.txt": "11", "fixtures/b/a.txt": "22"},
)
SETTINGS = Settings(
    suite="s",
    provider="scripted",
    model="m",
    agent=AgentSettings(),
    config_hash=config_hash(AgentSettings()),
    grants=Grants(effects=frozenset({"write"})),
    caps=Caps(calls=7),
    k=3,
)


def planned(suite: Suite = SUITE, settings: Settings = SETTINGS, **given: Any) -> NewSweep:
    return plan_sweep(suite, suite.tasks, settings, name="n", command="run", planned_at=1, conditions={}, **given)


def test_every_cell_is_repeated_k_times_at_positions_from_one() -> None:
    sweep = planned()
    assert [run.position for run in sweep.runs] == [1, 2, 3, 4, 5, 6]
    assert sorted((run.cell, run.repetition) for run in sweep.runs) == [(c, r) for c in (0, 1) for r in (0, 1, 2)]


def test_variants_of_a_case_share_a_pair_and_have_cells_of_their_own() -> None:
    sweep = planned(settings=attrs.evolve(SETTINGS, variants=(Variant(id="A"), Variant(id="B"))))
    assert [cell.variant for cell in sweep.cells] == ["A", "B", "A", "B"]
    for pair in {run.pair for run in sweep.runs}:
        cells = [sweep.cells[run.cell] for run in sweep.runs if run.pair == pair]
        assert {cell.variant for cell in cells} == {"A", "B"}
        assert len({cell.case_id for cell in cells}) == 1


def test_the_lineage_does_not_depend_on_the_model_but_the_cell_does() -> None:
    one, other = planned().cells[0], planned(settings=attrs.evolve(SETTINGS, model="m2")).cells[0]
    assert one.fingerprint == other.fingerprint
    assert one.digest != other.digest


def test_a_changed_fixture_is_another_cell_of_the_same_lineage() -> None:
    changed = attrs.evolve(SUITE, content=SUITE.content | {"fixtures/a/a.txt": "99"})
    assert planned(changed).cells[0].digest != planned().cells[0].digest
    assert planned(changed).cells[0].fingerprint == planned().cells[0].fingerprint
    assert planned(changed).cells[1] == planned().cells[1]


def test_a_new_suite_version_is_a_new_lineage() -> None:
    other = attrs.evolve(SUITE, suite_version="1.0.1")
    assert planned(other).cells[0].fingerprint != planned().cells[0].fingerprint


def test_a_changed_verifier_is_another_cell_and_a_changed_tag_is_not() -> None:
    retagged = attrs.evolve(SUITE, tasks=(task("a", tags=("new",)), task("b")))
    reworded = attrs.evolve(SUITE, tasks=(task("a", prompt="other"), task("b")))
    assert planned(retagged).cells == planned().cells
    assert planned(reworded).cells[0].digest != planned().cells[0].digest


def test_the_document_explains_the_digest_and_is_canonical() -> None:
    document = planned().cells[0].document
    assert json.loads(document)["identity"]["case"] == "a"
    assert document == json.dumps(json.loads(document), sort_keys=True, separators=(",", ":"))


def test_the_agent_a_task_asks_for_enters_its_hash_alone() -> None:
    settings = attrs.evolve(SETTINGS, agents={"careful": "Be careful."})
    suite = attrs.evolve(SUITE, tasks=(task("a", agent="careful"), task("b")))
    cells = planned(suite, settings).cells
    assert cells[0].config_hash != cells[1].config_hash == SETTINGS.config_hash


def test_an_agent_nobody_defined_is_refused() -> None:
    with pytest.raises(UsageError, match="careful"):
        SETTINGS.select_agent("careful")


def test_a_task_may_ask_for_the_built_in_agent_where_another_is_active() -> None:
    active = AgentSettings(agent="careful", instructions="Be careful.")
    settings = attrs.evolve(SETTINGS, agent=active, agents={"careful": "Be careful."})
    assert settings.select_agent("build") == AgentSettings()
    assert settings.select_agent(None) == settings.select_agent("careful") == active


def test_settings_survive_the_store() -> None:
    settings = attrs.evolve(SETTINGS, agents={"careful": "x"}, tasks=("a",), max_wall_s=1.5)
    assert Settings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


def test_settings_of_a_newer_version_are_read_without_what_is_unknown() -> None:
    assert Settings.from_json(SETTINGS.to_json() | {"from_the_future": 1}) == SETTINGS


@pytest.mark.parametrize("name", ["b", "s/b"])
def test_tasks_are_chosen_by_id_with_or_without_the_suite(name: str) -> None:
    assert [t.id for t in select_tasks(SUITE, [name])] == ["b"]


def test_an_unknown_task_is_refused_with_the_nearest() -> None:
    suite = attrs.evolve(SUITE, tasks=(task("rename-symbol"), task("b")))
    with pytest.raises(UsageError, match="rename-symbol"):
        select_tasks(suite, ["rename-symbl"])


def test_a_configuration_without_files_is_the_default_one() -> None:
    assert config_hash(Config().agent) == SETTINGS.config_hash
