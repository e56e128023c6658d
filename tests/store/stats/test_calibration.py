"""Calibration agrees with independent implementations, and what was not said is in no figure."""

from __future__ import annotations

import inspect
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.stats import calibration
from tests.store.stats.test_rates import agree, plain

GOLDEN = json.loads((Path(__file__).parent / "data" / "golden-calibration.json").read_text(encoding="utf-8"))["cases"]
FUNCTIONS = ("brier", "reliability_table", "ece", "brier_skill")
answers = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=80)


@pytest.mark.parametrize("case", GOLDEN, ids=[case["id"] for case in GOLDEN])
def test_golden_vector(case: dict[str, Any]) -> None:
    function = getattr(calibration, case["function"])
    assert set(case["inputs"]) <= set(inspect.signature(function).parameters)
    if isinstance(case["expected"], dict) and "raises" in case["expected"]:
        assert case["expected"] == {"raises": "ValueError"}
        with pytest.raises(ValueError):
            function(**case["inputs"])
    else:
        assert agree(plain(function(**case["inputs"])), case["expected"], case["tol"])


def test_every_function_with_vectors_is_tested() -> None:
    assert {case["function"] for case in GOLDEN} == set(FUNCTIONS)


@given(answers)
def test_a_table_holds_every_confidence_once_and_in_its_own_bin(said: list[tuple[float, bool]]) -> None:
    conf, correct = [one for one, _ in said], [right for _, right in said]

    table = calibration.reliability_table(conf, correct)

    assert [(one.low, one.high) for one in table] == [(place / 10, (place + 1) / 10) for place in range(10)]
    assert sum(one.n for one in table) == len(said)
    assert sum(round(one.n * one.accuracy) for one in table if one.n) == sum(correct)
    for one in table:
        assert (one.mean_conf is None) == (one.accuracy is None) == (one.wilson is None) == (one.n == 0)
        if one.n:
            assert one.low - 1e-9 <= one.mean_conf <= one.high + 1e-9
            assert one.wilson[0] <= one.accuracy <= one.wilson[1]


@given(answers)
def test_whoever_is_sure_and_right_has_no_brier_score_and_whoever_is_sure_and_wrong_the_worst(
    said: list[tuple[float, bool]],
) -> None:
    correct = [right for _, right in said]

    assert calibration.brier([float(right) for right in correct], correct) == 0
    assert calibration.brier([float(not right) for right in correct], correct) == 1


@given(answers)
def test_always_saying_the_overall_accuracy_has_no_skill_and_no_calibration_error(
    said: list[tuple[float, bool]],
) -> None:
    correct = [right for _, right in said]
    rate = sum(correct) / len(correct)

    skill = calibration.brier_skill([rate] * len(correct), correct)

    assert skill is None if rate in (0, 1) else skill == pytest.approx(0, abs=1e-9)
    assert calibration.ece([rate] * len(correct), correct) == pytest.approx(0, abs=1e-9)


@given(answers, st.lists(st.booleans(), max_size=10))
def test_what_came_without_a_confidence_changes_nothing(said: list[tuple[float, bool]], silent: list[bool]) -> None:
    conf, correct = [one for one, _ in said], [right for _, right in said]
    more = [*conf, *(None for _ in silent)], [*correct, *silent]

    for function in FUNCTIONS:
        assert getattr(calibration, function)(*more) == getattr(calibration, function)(conf, correct)


def test_a_decimal_that_begins_a_bin_is_in_it() -> None:
    table = calibration.reliability_table([place / 100 for place in range(101)], [1] * 101, bins=100)

    assert [one.n for one in table] == [*([1] * 99), 2]


def test_without_a_confidence_there_is_nothing_to_say() -> None:
    assert calibration.brier([None], [1]) is None
    assert calibration.brier_skill([None], [1]) is None
    assert calibration.ece([], []) is None
    assert [one.n for one in calibration.reliability_table([], [], bins=3)] == [0, 0, 0]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    ("conf", "correct"),
    [([math.nan], [1]), ([-0.01], [1]), ([1.01], [0]), ([0.5], []), ([0.5], [2]), ([0.5], [None]), ([None], [0.5])],
)
def test_what_is_no_answer_is_refused(function: str, conf: list[float | None], correct: list[float | None]) -> None:
    with pytest.raises(ValueError):
        getattr(calibration, function)(conf, correct)


@pytest.mark.parametrize("function", ["reliability_table", "ece"])
def test_a_table_has_a_bin(function: str) -> None:
    with pytest.raises(ValueError):
        getattr(calibration, function)([0.5], [1], bins=0)
