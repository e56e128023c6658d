"""Comparisons agree with independent implementations, and their promises hold everywhere."""

from __future__ import annotations

import inspect
import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from store.stats import compare, paired, planning, sequential, student
from store.stats.rates import MIN_JUDGED
from tests.store.stats.test_rates import agree, plain

GOLDEN = json.loads((Path(__file__).parent / "data" / "golden-compare.json").read_text(encoding="utf-8"))["cases"]
MODULES = (compare, paired, planning, sequential)


def function_named(name: str) -> Callable[..., Any]:
    return next(getattr(module, name) for module in MODULES if hasattr(module, name))


def side(passes: int, judged: int, errored: int = 0, mode: str = "live", **more: Any) -> compare.SideCounts:
    tallied: Any = {"passes": passes, "judged": judged, "errored": errored, "mode": mode, **more}
    return cast("compare.SideCounts", tallied)


@pytest.mark.parametrize("case", GOLDEN, ids=[case["id"] for case in GOLDEN])
def test_golden_vector(case: dict[str, Any]) -> None:
    function = function_named(case["function"])
    assert set(case["inputs"]) <= set(inspect.signature(function).parameters)
    assert agree(plain(function(**case["inputs"])), case["expected"], case["tol"])


def test_every_function_with_vectors_is_tested() -> None:
    assert {case["function"] for case in GOLDEN} == {
        *("compare_verdict", "interval_relation", "wilson_hi_exact", "newcombe_diff", "newcombe_paired"),
        *("mcnemar_exact", "fisher_exact", "holm", "bh"),
        *("paired_t", "fixed_suite_diff", "se_clt", "se_clustered", "icc1", "signflip_p", "cluster_bootstrap"),
        *("miller_n", "miller_mde", "screen_power", "screen_min_k", "screen_step", "screen_seq_power"),
    }


def test_at_five_repetitions_only_none_against_all_decides() -> None:
    words = {(a, b): compare.compare_verdict(side(a, 5), side(b, 5)) for a, b in itertools.product(range(6), repeat=2)}
    assert words.pop((0, 5)) == "improved"
    assert words.pop((5, 0)) == "regressed"
    assert set(words.values()) == {"inconclusive"}


def test_a_replay_is_changed_where_a_verifier_says_something_else() -> None:
    same = compare.compare_verdict(
        side(0, 1, mode="replay", verifiers={"check": "fail"}), side(0, 1, mode="replay", verifiers={"check": "fail"})
    )
    other = compare.compare_verdict(
        side(0, 1, mode="replay", verifiers={"check": "fail"}), side(0, 1, mode="replay", verifiers={"scope": "fail"})
    )
    assert (same, other) == ("unchanged", "changed")


@given(data=st.data(), n1=st.integers(1, 60), n2=st.integers(1, 60))
def test_a_comparison_turned_around_says_the_opposite(data: DataObject, n1: int, n2: int) -> None:
    x1, x2 = data.draw(st.integers(0, n1)), data.draw(st.integers(0, n2))
    opposite = {"improved": "regressed", "regressed": "improved"}
    word = compare.compare_verdict(side(x1, n1), side(x2, n2))
    assert compare.compare_verdict(side(x2, n2), side(x1, n1)) == opposite.get(word, word)
    low, high = compare.newcombe_diff(x1, n1, x2, n2)
    assert compare.newcombe_diff(x2, n2, x1, n1) == pytest.approx((-high, -low))
    assert -1 <= low <= x1 / n1 - x2 / n2 <= high <= 1
    p = compare.fisher_exact(x1, n1, x2, n2)
    assert p == compare.fisher_exact(x2, n2, x1, n1)
    assert 0 < p <= 1


@given(data=st.data(), n=st.integers(5, 60))
def test_a_direction_is_claimed_only_where_fishers_test_would_too(data: DataObject, n: int) -> None:
    x1, x2 = data.draw(st.integers(0, n)), data.draw(st.integers(0, n))
    if compare.compare_verdict(side(x1, n), side(x2, n)) in ("improved", "regressed"):
        assert compare.fisher_exact(x1, n, x2, n) < 0.05


@given(st.lists(st.floats(0, 1), max_size=30))
def test_adjusted_p_values_are_no_smaller_keep_their_order_and_holm_is_the_stricter(ps: list[float]) -> None:
    held, discovered = compare.holm(ps), compare.bh(ps)
    for p, strict, lax in zip(ps, held, discovered, strict=True):
        assert p <= lax + 1e-12 <= strict + 2e-12 <= 1 + 2e-12
    assert [held[place] for place in sorted(range(len(ps)), key=ps.__getitem__)] == sorted(held)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=12))
def test_a_sign_flip_needs_six_cases_and_looks_at_size_only(diffs: list[float]) -> None:
    p = paired.signflip_p(diffs)
    assert p == pytest.approx(paired.signflip_p([-diff for diff in diffs]))
    moved = sum(abs(diff) > paired.SAME_TOLERANCE for diff in diffs)
    assert 2 / 2**moved <= p <= 1 or moved == 0


def test_many_cases_are_flipped_at_random_and_always_alike() -> None:
    diffs = [0.1 * (place % 5 - 1) for place in range(40)]
    p = paired.signflip_p(diffs)
    assert p == paired.signflip_p(diffs)
    assert p != paired.signflip_p(diffs, seed=1)
    found = paired.paired_t(diffs)
    assert p == pytest.approx(found.p, abs=0.01)


def test_where_every_case_moved_alike_there_is_no_probability() -> None:
    found = paired.paired_t([0.2, 0.1 + 0.1, 0.3 - 0.1, 0.2, 0.2])
    assert (found.p, found.se) == (None, 0.0)
    assert found.ci == pytest.approx((0.2, 0.2))
    assert paired.suite_verdict(found) == "improved"
    assert paired.suite_verdict(paired.paired_t([0.0] * 5)) == "inconclusive"
    assert paired.suite_verdict(paired.paired_t([-0.2] * 5)) == "regressed"


def test_a_suite_of_four_cases_claims_nothing() -> None:
    assert paired.suite_verdict(paired.paired_t([0.5, 0.51, 0.49, 0.5])) == "low power"
    assert paired.suite_verdict(None) == "low power"


@pytest.mark.parametrize(("p", "df", "t"), [(0.975, 1, 12.706204736432095), (0.975, 4, 2.7764451051977987)])
def test_quantiles_of_student_are_those_of_the_tables(p: float, df: int, t: float) -> None:
    assert student.t_quantile(p, df) == pytest.approx(t)


@given(df=st.integers(1, 2000), p=st.floats(0.51, 0.999))
def test_quantile_and_tail_of_student_fit(df: int, p: float) -> None:
    assert student.t_two_sided(student.t_quantile(p, df), df) == pytest.approx(2 * (1 - p), rel=1e-8)


def test_with_many_degrees_student_is_normal() -> None:
    assert student.t_quantile(0.975, 1e7) == pytest.approx(1.959963984540054, abs=1e-6)
    assert student.t_two_sided(0, 5) == 1.0


@given(k=st.integers(5, 40), pa=st.floats(0, 1), pb=st.floats(0, 1))
def test_the_power_of_the_screen_is_that_of_all_pairs_weighed(k: int, pa: float, pb: float) -> None:
    found = planning.screen_power(pa, pb, k)
    turned = planning.screen_power(pb, pa, k)
    assert (found.improved, found.regressed) == pytest.approx((turned.regressed, turned.improved))
    if k < 9:
        expected = sum(
            math.comb(k, x) * pa**x * (1 - pa) ** (k - x) * math.comb(k, y) * pb**y * (1 - pb) ** (k - y)
            for x, y in itertools.product(range(k + 1), repeat=2)
            if compare.compare_verdict(side(x, k), side(y, k)) == "improved"
        )
        assert found.improved == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("difference", "k"), [(0.3, 71), (0.4, 37), (0.5, 24), (0.6, 16), (0.7, 12), (0.8, 9), (0.9, 6)]
)
def test_repetitions_for_a_difference_around_a_half(difference: float, k: int) -> None:
    rates = round(0.5 - difference / 2, 3), round(0.5 + difference / 2, 3)
    assert planning.screen_min_k(*rates) == k
    assert planning.screen_min_k(*reversed(rates)) == k


@pytest.mark.parametrize(("k_max", "most"), [(20, 0.028), (30, 0.047)])
def test_looking_after_every_repetition_stays_below_one_in_twenty(k_max: int, most: float) -> None:
    found = sequential.screen_seq_power(0.5, 0.5, k_max)
    assert found.improved == pytest.approx(found.regressed)
    assert found.improved + found.regressed <= most
    assert MIN_JUDGED <= found.mean_k <= k_max


@given(data=st.data(), n=st.integers(5, 30))
def test_what_an_early_look_stops_on_is_what_a_comparison_of_these_runs_says(data: DataObject, n: int) -> None:
    xa, xb = data.draw(st.integers(0, n)), data.draw(st.integers(0, n))
    word = sequential.screen_step(xa, xb, n, 30)
    assert word in (None, compare.compare_verdict(side(xa, n), side(xb, n)))
    assert sequential.screen_step(xa, xb, n, n) == compare.compare_verdict(side(xa, n), side(xb, n))
    assert sequential.screen_step(xa, xb, n, 30, futility=None) != "inconclusive" or n == 30


def test_no_number_of_repetitions_shows_what_is_not_there() -> None:
    assert planning.screen_min_k(0.6, 0.6) is None
    assert planning.screen_min_k(0.5, 0.52) is None
    assert planning.screen_min_k(0.0, 1.0) == 5


@pytest.mark.parametrize(
    ("points", "k", "cases"),
    [(5, 1, 1005), (5, 20, 110), (10, 5, 63), (15, 10, 18), (20, 3, 24), (20, 5, 16), (20, 20, 7 + 2)],
)
def test_cases_for_a_difference_with_the_usual_variances(points: int, k: int, cases: int) -> None:
    usual = planning.estimate_variances([], [], [])
    assert usual.assumed
    assert planning.cases_needed(points / 100, usual, k) == cases


def test_repetitions_and_cases_for_a_difference_fit_together() -> None:
    usual = planning.estimate_variances([], [], [])
    assert planning.repetitions_needed(0.2, usual, 16) == 5
    assert planning.repetitions_needed(0.05, usual, 20) is None
    assert planning.repetitions_needed(0.5, usual, 2) is None
    assert planning.smallest_difference(usual, 2, 5, 5) is None
    assert planning.smallest_difference(usual, 16, 5, 5) == pytest.approx(0.198, abs=1e-3)


def test_variances_come_from_the_stored_runs_where_they_tell_them() -> None:
    found = planning.estimate_variances([0.2, -0.2, 0.6], [(1, 5), (3, 5), (0, 5)], [(2, 5), (2, 5), (3, 5)])
    assert not found.assumed
    assert found.baseline == pytest.approx((4 / 20 + 6 / 20 + 0) / 3)
    assert found.candidate == pytest.approx((6 / 20 * 3) / 3)
    assert found.effect == pytest.approx(max(0, 0.16 - (found.baseline + found.candidate) / 5))


@pytest.mark.parametrize(
    "call",
    [
        lambda: compare.compare_verdict(side(6, 5), side(1, 5)),
        lambda: compare.fisher_exact(6, 5, 1, 5),
        lambda: compare.newcombe_paired(-1, 0, 0, 2),
        lambda: compare.mcnemar_exact(-1, 2),
        lambda: compare.holm([0.5, math.nan]),
        lambda: compare.bh([1.5]),
        lambda: paired.paired_t([0.1, math.nan]),
        lambda: paired.signflip_p([math.nan]),
        lambda: paired.fixed_suite_diff([[1, 0]], []),
        lambda: paired.se_clustered([[1.0], [math.nan]]),
        lambda: planning.miller_n(0, 0.1, 0.1, 1, 0.1, 1),
        lambda: planning.miller_n(0.1, 0.1, 0.1, 0, 0.1, 1),
        lambda: planning.miller_mde(0, 0.1, 0.1, 1, 0.1, 1),
        lambda: planning.screen_power(1.2, 0.5, 5),
        lambda: planning.screen_power(1.2, 0.5, 3),
        lambda: planning.screen_min_k(math.nan, 0.5),
        lambda: sequential.screen_step(1, 1, 6, 5),
        lambda: sequential.screen_step(7, 1, 6, 9),
        lambda: sequential.screen_conf(201),
        lambda: sequential.screen_seq_power(1.1, 0.5, 9),
        lambda: planning.repetitions_needed(0, planning.estimate_variances([], [], []), 5),
    ],
)
def test_what_is_no_measurement_is_refused(call: Callable[..., Any]) -> None:
    with pytest.raises(ValueError):
        call()


def test_the_undefined_is_none() -> None:
    assert compare.newcombe_paired(0, 0, 0, 0) is None
    assert compare.wilson_hi_exact(0) is None
    assert compare.holm([]) == compare.bh([]) == []
    assert paired.paired_t([]) is None
    assert paired.fixed_suite_diff([], []) is None
    assert paired.fixed_suite_diff([[1.0, 0.0]], [[1.0]]) is None
    assert paired.se_clustered([[1.0, 0.0]]) is None
    assert paired.icc1([[1.0], [0.0]]) is None
    assert paired.icc1([[1.0, 1.0], [1.0, 1.0]]) is None
    assert paired.cluster_bootstrap([]) is None
    assert paired.signflip_p([0.0, 0.0]) == 1.0


def test_repetitions_that_are_alike_widen_a_pooled_rate() -> None:
    assert paired.design_effect(5, 0.4) == pytest.approx(2.6)
    assert paired.design_effect(5, -0.1) == 1
