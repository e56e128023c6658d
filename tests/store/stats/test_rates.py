"""Rates agree with independent implementations, and the undefined stays undefined."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from store.stats import rates

GOLDEN = json.loads((Path(__file__).parent / "data" / "golden-rates.json").read_text(encoding="utf-8"))["cases"]


def plain(value: Any) -> Any:
    """What a golden file can hold: tuples are lists, values are objects."""
    if attrs.has(type(value)):
        return {name: plain(field) for name, field in attrs.asdict(value, recurse=False).items()}
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def agree(actual: Any, expected: Any, tolerance: float) -> bool:
    if isinstance(expected, dict):
        return all(agree(actual[name], value, tolerance) for name, value in expected.items())
    if isinstance(expected, Sequence) and not isinstance(expected, str):
        return len(actual) == len(expected) and all(map(agree, actual, expected, [tolerance] * len(expected)))
    if isinstance(expected, float) and isinstance(actual, int | float):
        return abs(actual - expected) <= tolerance * max(1, abs(expected))
    return actual == expected and type(actual) is type(expected)


@pytest.mark.parametrize("case", GOLDEN, ids=[case["id"] for case in GOLDEN])
def test_golden_vector(case: dict[str, Any]) -> None:
    function = getattr(rates, case["function"])
    inputs = {name: math.nan if value == "NaN" else value for name, value in case["inputs"].items()}
    assert set(inputs) <= set(inspect.signature(function).parameters)
    if isinstance(case["expected"], dict) and "raises" in case["expected"]:
        assert case["expected"] == {"raises": "ValueError"}
        with pytest.raises(ValueError):
            function(**inputs)
    else:
        assert agree(plain(function(**inputs)), case["expected"], case["tol"])


def test_every_function_with_vectors_is_tested() -> None:
    assert {case["function"] for case in GOLDEN} == {
        *("wilson_interval", "summarize_outcomes", "stable_fraction", "reliability_class", "pass_at_k", "pass_hat_k"),
        *("quantile7", "per_success", "cached_ratio"),
    }


@given(n=st.integers(1, 400), data=st.data())
def test_an_interval_holds_its_rate_and_mirrors(n: int, data: DataObject) -> None:
    passes = data.draw(st.integers(0, n))

    low, high = rates.wilson_interval(passes, n)
    mirrored = rates.wilson_interval(n - passes, n)

    assert 0 <= low <= passes / n <= high <= 1
    assert mirrored == pytest.approx((1 - high, 1 - low))


@given(n=st.integers(1, 60), data=st.data())
def test_pass_at_k_rises_and_pass_hat_k_falls_with_k(n: int, data: DataObject) -> None:
    c = data.draw(st.integers(0, n))

    at = [rates.pass_at_k(n, c, k) for k in range(1, n + 1)]
    hat = [rates.pass_hat_k(n, c, k) for k in range(1, n + 1)]

    assert at == sorted(at)
    assert hat == sorted(hat, reverse=True)
    assert at[-1] == (c > 0)
    assert hat[-1] == (c == n)


def test_a_skipped_run_is_counted_apart() -> None:
    summary = rates.summarize_outcomes(["pass", "skipped", "fail"])

    assert (summary.judged, summary.skipped, summary.success_rate) == (2, 1, 0.5)


@pytest.mark.parametrize(
    "call",
    [
        lambda: rates.summarize_outcomes(["passed"]),  # type: ignore[list-item]
        lambda: rates.wilson_interval(1, 2, conf=1.0),
        lambda: rates.success_rate(3, 2),
        lambda: rates.success_rate(None, 2),
        lambda: rates.reliability_class(1, 2),
        lambda: rates.pass_at_k(3, 1, 0),
        lambda: rates.pass_hat_k(3, 4, 1),
        lambda: rates.quantile7([1.0, math.nan], 0.5),
        lambda: rates.quantile7([1.0], 1.5),
        lambda: rates.sample_median([None]),
        lambda: rates.sample_variance([1.0, math.nan]),
        lambda: rates.per_success(math.nan, 1),
        lambda: rates.per_success(1, -1),
    ],
)
def test_what_is_no_measurement_is_refused(call: Callable[..., Any]) -> None:
    with pytest.raises(ValueError):
        call()


def test_the_undefined_is_none() -> None:
    assert rates.success_rate(0, 0) is None
    assert rates.quantile7([], 0.5) is None
    assert rates.sample_median([]) is None
    assert rates.sample_variance([3.0]) is None
    assert rates.stable_fraction([]) is None
    assert rates.cached_ratio([(0, 0, False)]) is None


def test_median_and_variance() -> None:
    assert rates.sample_median([3, 1, 2, 10]) == 2.5
    assert rates.sample_variance([1, 2, 3, 4]) == pytest.approx(5 / 3)


def test_power_is_low_below_five_judged_runs() -> None:
    assert [rates.has_low_power(n) for n in (0, 4, 5)] == [True, True, False]
