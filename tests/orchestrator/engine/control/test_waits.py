import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.engine.control.waits import QuietTimer, Stalled, StallScope, Wait, Waits, describe_waits

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_wait_is_open_from_its_beginning_to_its_end_and_its_end_is_something_that_happens() -> None:
    waits = Waits(Clock())
    waits.progressed = False
    with Wait(waits, "permit", 3):
        assert repr(waits) == "<Waits: 1 waits for a permit of the account>"
        assert not waits.progressed
    assert waits.open == set()
    assert waits.progressed


def test_the_summary_says_when_the_next_retry_is_due_and_leaves_out_plain_waits_for_an_answer() -> None:
    waits = Waits(Clock())
    for wait in (Wait(waits, "retry", 1, until=9.0), Wait(waits, "retry", 2, until=4.0), Wait(waits, "answer", 3)):
        wait.begin_wait()
    assert waits.summarize_waits() == "2 wait for a retry (the next in 4 s)"
    assert describe_waits(waits.open) == "2 waits for a retry, 1 wait for an answer"


def test_quiet_grows_until_something_happens() -> None:
    quiet = QuietTimer(tick_s=1.0)
    assert quiet.measure_quiet(0.0, progressed=False) == 0
    assert [quiet.measure_quiet(now, progressed=False) for now in (1.0, 2.0, 3.0)] == [1, 2, 3]
    assert quiet.measure_quiet(4.0, progressed=True) == 0
    assert quiet.measure_quiet(5.0, progressed=False) == 1


def test_time_in_which_the_process_was_stopped_is_no_quiet() -> None:
    quiet = QuietTimer(tick_s=1.0)
    quiet.measure_quiet(0.0, progressed=False)
    quiet.measure_quiet(1.0, progressed=False)
    assert quiet.measure_quiet(3601.0, progressed=False) == 3


@given(st.lists(st.tuples(st.floats(0, 100), st.booleans()), min_size=1))
def test_quiet_is_never_longer_than_the_looks_can_vouch_for(steps: list[tuple[float, bool]]) -> None:
    quiet, now = QuietTimer(tick_s=1.0), 0.0
    for looks, (gap, stirred) in enumerate(steps, 1):
        now += gap
        assert 0 <= quiet.measure_quiet(now, progressed=stirred) <= 2 * looks + 1e-6


async def test_a_bound_ends_what_is_inside_with_the_first_reason() -> None:
    bound = StallScope()
    with bound.scope:
        bound.give_up(Stalled("answer", 600.0))
        bound.give_up(Stalled("permit", 700.0))
        await anyio.sleep_forever()
    assert str(bound.error) == "waited for an answer and saw no progress for 600 s (--max-stall)"
