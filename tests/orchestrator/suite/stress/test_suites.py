"""The generators: what is committed is what they make."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from orchestrator.cli.suite import gen_stress
from orchestrator.installation import BUNDLED
from orchestrator.suite.catalog import find_suite
from orchestrator.suite.stress.chains import SEGMENTS, make_chain
from orchestrator.suite.stress.draw import Draw
from orchestrator.suite.stress.suites import (
    COMMITTED_INSTANCES,
    LONG_CONTEXT,
    MAX_INSTANCES,
    STRESS,
    make_long_context,
    make_long_context_stress,
)
from orchestrator.suite.stress.writing import LISTING_FILE, render_listing
from providers.agent.compaction import MAX_ITEM_CHARS

LARGEST = 2 << 20
"""Bytes of all bundled suites together."""


@pytest.mark.parametrize(("name", "make"), [(LONG_CONTEXT, make_long_context), (STRESS, make_long_context_stress)])
def test_generating_again_gives_the_committed_bytes(name: str, make: Callable[..., Any]) -> None:
    made = make()
    made[LISTING_FILE] = render_listing(made)
    committed = {
        file.relative_to(BUNDLED / name).as_posix(): file.read_bytes()
        for file in (BUNDLED / name).rglob("*")
        if file.is_file() and "cassettes" not in file.parts
    }
    assert committed == {path: content.encode() for path, content in made.items()}


def test_the_suites_are_what_the_documents_say() -> None:
    long, stress = find_suite(LONG_CONTEXT, None), find_suite(STRESS, None)
    assert len(long.tasks) == 3
    assert stress.suite_version == "1.1.0"
    assert [task.id for task in stress.tasks] == [
        "chain-walk-format-rule",
        "repeated-edits",
        "frozen-directory",
        "running-totals",
        *(f"chain-walk-rules-{number:02}" for number in range(1, 6)),
    ]
    for task in stress.tasks[4:]:
        assert [verifier.id for verifier in task.verifiers] == [
            "codes",
            "r1-line-shape",
            "r2-header",
            "r3-footer",
            "scope",
        ]


def test_more_instances_leave_the_first_ones_as_they_are() -> None:
    few, many = make_long_context_stress(), make_long_context_stress(12)
    same = few.keys() - {"suite.json"}
    assert {path: many[path] for path in same} == {path: few[path] for path in same}
    short, long = json.loads(few["suite.json"]), json.loads(many["suite.json"])
    assert long["tasks"][: len(short["tasks"])] == short["tasks"]
    assert [task["id"] for task in long["tasks"][9:]] == [f"chain-walk-rules-{number:02}" for number in range(6, 13)]
    assert {**long, "tasks": []} == {**short, "tasks": []}


@pytest.mark.parametrize("instances", [0, COMMITTED_INSTANCES - 1, MAX_INSTANCES + 1])
def test_a_number_of_instances_without_names_is_refused(instances: int) -> None:
    with pytest.raises(ValueError, match="5 to 99"):
        make_long_context_stress(instances)


def test_the_command_line_allows_what_the_generator_does() -> None:
    assert (gen_stress.MIN_INSTANCES, gen_stress.MAX_INSTANCES) == (COMMITTED_INSTANCES, MAX_INSTANCES)


@settings(max_examples=30)
@given(st.integers(min_value=0, max_value=2**53))
def test_every_segment_names_the_next_and_its_own_code_once(seed: int) -> None:
    chain = make_chain(seed)
    assert chain == make_chain(seed)
    assert len({*chain.codes}) == len({*chain.names}) == len(chain.files) == SEGMENTS
    following = [*chain.names[1:], None]
    for index, after in enumerate(following):
        content = chain.files[chain.locate_segment(index)]
        assert [code for code in chain.codes if code in content] == [chain.codes[index]]
        named = [path for path in chain.files if path in content]
        assert named == ([f"segments/{after}"] if after else [])
        # a summary is shown a whole segment, with its line numbers
        assert len(content) + 6 * content.count("\n") + 200 < MAX_ITEM_CHARS


@given(st.integers(), st.lists(st.integers(), max_size=30), st.data())
def test_a_sample_holds_each_place_at_most_once(seed: int, items: list[int], data: DataObject) -> None:
    count = data.draw(st.integers(0, len(items)))
    drawn = Draw(seed).draw_sample(range(len(items)), count)
    assert len(drawn) == len({*drawn}) == count
    assert sorted(Draw(seed).shuffle_items(items)) == sorted(items)


def test_a_seed_draws_the_same_everywhere() -> None:
    draw = Draw(1)
    assert [draw.draw_between(1, 100) for _ in range(6)] == [14, 85, 77, 26, 50, 45]


def test_the_bundled_suites_stay_small() -> None:
    assert sum(file.stat().st_size for file in BUNDLED.rglob("*") if file.is_file()) < LARGEST
