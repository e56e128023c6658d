from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.engine.run_order import Slot, order_runs

sizes = st.integers(min_value=1, max_value=7)


@given(cases=sizes, variants=sizes, repetitions=sizes, seed=st.integers(0, 1000))
def test_every_run_appears_exactly_once(cases: int, variants: int, repetitions: int, seed: int) -> None:
    slots = list(order_runs(cases=cases, variants=variants, repetitions=repetitions, seed=seed))
    assert len(slots) == cases * variants * repetitions
    assert len({(s.case, s.variant, s.repetition) for s in slots}) == len(slots)


@given(cases=sizes, variants=sizes, repetitions=sizes, seed=st.integers(0, 1000))
def test_repetitions_are_outermost_and_pairs_stand_together(
    cases: int, variants: int, repetitions: int, seed: int
) -> None:
    slots = list(order_runs(cases=cases, variants=variants, repetitions=repetitions, seed=seed))
    assert [s.repetition for s in slots] == sorted(s.repetition for s in slots)
    assert [s.pair for s in slots] == sorted(s.pair for s in slots)
    assert set(Counter(s.pair for s in slots).values()) == {variants}
    assert all(len({(s.case, s.repetition) for s in slots if s.pair == pair}) == 1 for pair in {s.pair for s in slots})


def test_variants_alternate_so_that_neither_always_comes_first() -> None:
    slots = list(order_runs(cases=2, variants=2, repetitions=2, seed=0))
    assert [s.variant for s in slots] == [0, 1, 1, 0, 0, 1, 1, 0]


def test_the_seed_alone_decides_the_order() -> None:
    def order(seed: int) -> list[Slot]:
        return list(order_runs(cases=9, variants=2, repetitions=3, seed=seed))

    assert order(7) == order(7)
    assert order(7) != order(8)


def test_the_order_of_a_seed_is_pinned_because_stored_plans_depend_on_it() -> None:
    assert [s.case for s in order_runs(cases=5, variants=1, repetitions=2, seed=3)] == [0, 2, 3, 4, 1, 3, 4, 0, 2, 1]
