import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from orchestrator.measured import config_hash
from orchestrator.suite.config import Config
from orchestrator.suite.effects import Grants
from orchestrator.suite.formats.variants_json import read_variants
from orchestrator.suite.settings import Settings
from orchestrator.suite.variant import Variant, find_variant
from providers.base import AgentSettings
from store.errors import UsageError

GOOD = {
    "suite": "s",
    "variants": [{"id": "a", "overrides": {}}, {"id": "b", "overrides": {"compaction.threshold": 0.6}}],
}
SETTINGS = Settings(
    suite="s",
    provider="scripted",
    model="m",
    agent=AgentSettings(),
    agents={"careful": "Look twice."},
    config_hash="c",
    grants=Grants(effects=frozenset()),
    variants=(
        Variant(id="a"),
        Variant(id="b", overrides={"limits.maxTurns": 3, "nativeTools": [{"type": "search"}]}),
        Variant(id="c", overrides={"agents.active": "careful"}),
    ),
)


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., tuple[Variant, ...]]:
    def reading(document: Any) -> tuple[Variant, ...]:
        file = tmp_path / "compare.json"
        file.write_text(document if isinstance(document, str) else json.dumps(document, indent=1), encoding="utf-8")
        return read_variants(file, suite_id="s", agents={"careful": "Look twice."})

    return reading


def refusal(read: Callable[..., tuple[Variant, ...]], document: Any) -> str:
    with pytest.raises(UsageError) as refused:
        read(document)
    return str(refused.value)


def with_overrides(**overrides: Any) -> dict[str, Any]:
    return {"suite": "s", "variants": [{"id": "a"}, {"id": "b", "overrides": overrides}]}


def test_variants_keep_their_order_and_may_override_nothing(read: Callable[..., tuple[Variant, ...]]) -> None:
    found = read(GOOD)
    assert [variant.id for variant in found] == ["a", "b"]
    assert found[1].overrides == {"compaction.threshold": 0.6}
    assert read({"schemaVersion": 1, "suite": "s", "variants": [{"id": "b"}, {"id": "a"}]})[0] == Variant(id="b")


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ([], "expected an object"),
        ({}, "missing required field 'suite'"),
        ({"suite": "s"}, "missing required field 'variants'"),
        ({**GOOD, "suite": "t"}, "suite: the file is for another suite: expected 's', got 't'"),
        ({**GOOD, "schemaVersion": 2}, "schemaVersion: expected 1, got 2"),
        ({**GOOD, "varaints": []}, "unknown field 'varaints' (did you mean 'variants'?)"),
        ({"suite": "s", "variants": {}}, "expected an array of variants"),
        ({"suite": "s", "variants": [{"id": "a"}]}, "at least two variants to compare, got 1"),
        ({"suite": "s", "variants": [{"id": f"v{n}"} for n in range(3000)]}, "at most 100 variants, got 3,000"),
        ({"suite": "s", "variants": [{"id": "a"}, {"id": "a"}]}, "another variant is called 'a': variants[0]"),
        ({"suite": "s", "variants": [{"id": "a"}, {"id": "../b"}]}, "variants[1].id: expected letters"),
        ({"suite": "s", "variants": [{"id": "a"}, {"id": "Comparison.json"}]}, "is the name of a file"),
        ({"suite": "s", "variants": [{"id": "a"}, 3]}, "variants[1]: expected an object, got 3"),
        ({"suite": "s", "variants": [{"id": "a"}, {"overrides": []}]}, "variants[1]: missing required field 'id'"),
        ({"suite": "s", "variants": [{"id": "a"}, {"id": "b", "overrides": []}]}, "overrides: expected an object"),
        (with_overrides(**{"compaction.treshold": 0.6}), "did you mean 'compaction.threshold'?"),
        (with_overrides(**{"compaction.threshold": 7}), "expected a number from 0.1 to 0.99, got 7"),
        (with_overrides(model="m"), "with --model"),
        (with_overrides(provider="openai"), "it is not part of the configuration hash"),
        (with_overrides(**{"agents.active": "carefull"}), "did you mean 'careful'?"),
        (with_overrides(**{"agents.definitions": {}}), "agents.active"),
        (with_overrides(compaction={"threshold": 0.6}), "dotted names, such as 'compaction.auto'"),
        ('{"suite": "s", "suite": "s", "variants": []}', "suite"),
    ],
)
def test_each_mistake_is_told_with_its_place(
    read: Callable[..., tuple[Variant, ...]], document: Any, told: str
) -> None:
    message = refusal(read, document)
    assert told in message
    assert "compare.json:" in message


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(read: Callable[..., tuple[Variant, ...]]) -> None:
    message = refusal(read, {"suite": "t", "variants": [{"id": "a", "overrides": {"model": 1, "plugins": []}}]})
    assert [line.split(": ")[1] for line in message.splitlines()] == [
        "suite",
        "variants",
        "variants[0].overrides.model",
        "variants[0].overrides.plugins",
    ]


def test_a_hundred_variants_are_taken(read: Callable[..., tuple[Variant, ...]]) -> None:
    assert len(read({"suite": "s", "variants": [{"id": f"v{number}"} for number in range(100)]})) == 100


def test_an_active_agent_that_is_defined_may_be_chosen(read: Callable[..., tuple[Variant, ...]]) -> None:
    assert read(with_overrides(**{"agents.active": "careful"}))[1].overrides == {"agents.active": "careful"}


def test_each_variant_has_a_configuration_of_its_own() -> None:
    assert SETTINGS.select_agent(None, "a") == SETTINGS.agent
    assert SETTINGS.select_agent(None, "b").max_turns == 3
    assert SETTINGS.select_agent(None, "b").native_tools == ({"type": "search"},)
    assert SETTINGS.select_agent(None, "c").instructions == "Look twice."
    assert SETTINGS.select_agent("careful", "b").instructions == "Look twice."
    assert len({config_hash(SETTINGS.select_agent(None, name)) for name in SETTINGS.list_variant_ids()}) == 3
    assert attrs.evolve(SETTINGS, variants=()).list_variant_ids() == ("",)
    assert Config().agent == AgentSettings()


def test_variants_are_stored_in_their_order_and_read_back() -> None:
    stored = json.loads(json.dumps(SETTINGS.to_json(), sort_keys=True))
    again = Settings.from_json(stored)
    assert again.variants == SETTINGS.variants
    assert again.select_agent(None, "b") == SETTINGS.select_agent(None, "b")
    assert SETTINGS.variants_to_json()["b"]["agent"]["max_turns"] == 3


def test_a_sweep_from_before_there_were_variants_has_none() -> None:
    stored = SETTINGS.to_json()
    del stored["variants"]
    assert Settings.from_json(stored).variants == ()


def test_an_unknown_variant_is_told_with_the_nearest() -> None:
    assert find_variant(["base", "early"], "early", sweep="s") == "early"
    with pytest.raises(UsageError, match="did you mean 'early'"):
        find_variant(["base", "early"], "earl", sweep="s")
    with pytest.raises(UsageError, match="has no variants"):
        find_variant([], "early", sweep="s")
    with pytest.raises(UsageError, match="sweep s has no target 'big'"):
        find_variant(["large"], "big", sweep="s", noun="target")
