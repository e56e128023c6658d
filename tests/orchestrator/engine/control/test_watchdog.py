from typing import Any

import pytest

from orchestrator.engine.control.control import Control
from orchestrator.engine.control.waits import StallScope, Wait, WaitKind, Waits
from orchestrator.engine.control.watchdog import Watchdog
from orchestrator.engine.hold import Hold
from store.records import CommandRow
from store.sql.claims import HeldRuns

pytestmark = pytest.mark.anyio
HELD = HeldRuns(host="there", pid=7, runs=2, first=3, newest=9, events=4)


class Stage:
    """A watchdog with everything around it in its plainest form."""

    def __init__(self, *, running: int = 1, work_bound_s: float = 1000.0) -> None:
        self.said: list[str] = []
        self.notices: list[tuple[str, Any]] = []
        self.waits = Waits(lambda: 0.0)
        self.waits.progressed = False
        self.control = Control(self.said.append)
        self.running = running
        self.held = (HELD,)
        self.dog = Watchdog(
            waits=self.waits,
            control=self.control,
            bound_s=10.0,
            work_bound_s=work_bound_s,
            count_running=lambda: self.running,
            list_others=self.others,
            record_notice=lambda kind, facts: self.notices.append((kind, facts)),
        )

    async def others(self) -> tuple[HeldRuns]:
        return self.held

    async def acts(self, now: float) -> bool:
        """Let the watchdog act at *now* if nothing has happened since second 0; whether it had to."""
        await self.dog.observe(0.0)
        stall = self.dog.decide(now)
        if stall is not None:
            self.dog.act(stall, now)
        return stall is not None

    def wait(self, what: WaitKind, run: int | None = None, **ends: Any) -> StallScope:
        bound = StallScope()
        Wait(self.waits, what, run, None if what == "store" else bound.give_up, **ends).begin_wait()
        return bound


async def test_waits_are_ended_only_when_nothing_has_happened_for_the_bound() -> None:
    stage = Stage()
    bound = stage.wait("answer", 4)
    assert not await stage.acts(9.9)
    assert not bound.scope.cancel_called
    assert await stage.acts(10.0)
    assert bound.error.kind == "answer"
    assert stage.control.why == "stalled"
    assert stage.said == ["no progress for 10 s (--max-stall): ended 1 wait for an answer"]
    assert stage.notices == [("stalled", {"seconds": 10, "waits": "1 wait for an answer", "runs": [4]})]


async def test_whatever_happens_is_seen_once() -> None:
    stage = Stage()
    stage.wait("answer", 4)
    stage.waits.progressed = True
    assert await stage.dog.observe(0.0)
    assert not await stage.dog.observe(0.0)


async def test_a_wait_for_the_store_is_left_to_the_stores_own_bound() -> None:
    stage = Stage()
    bound = stage.wait("store", 4)
    assert not await stage.acts(500.0)
    assert bound.error is None


def held(until: float) -> Hold:
    return Hold(until=until, cause="--tpm 1", flag="--tpm")


async def test_a_wait_that_time_alone_will_end_within_the_bound_is_waited_for() -> None:
    for ends in ({"find_hold": lambda: held(10.0)}, {"until": 10.0}):
        stage = Stage()
        bound = stage.wait("permit", 4, **ends)
        assert await stage.dog.observe(0.0)
        assert not await stage.acts(0.0)
        assert bound.error is None


async def test_a_wait_that_would_be_longer_than_the_bound_is_ended_at_once_and_told_by_what() -> None:
    stage = Stage()
    bound, other = stage.wait("permit", 4, find_hold=lambda: held(7140.0)), stage.wait("answer", 5)
    assert not await stage.dog.observe(0.0)
    assert await stage.acts(0.0)
    why = "--tpm 1 allows the next request in 7140 s, but --max-stall is 10 s: raise --tpm or --max-stall"
    assert str(bound.error) == f"did not wait for a permit of the account: {why}"
    assert other.error is None
    assert stage.control.message == why
    assert stage.said == [why]
    waits = "1 wait for a permit of the account"
    assert stage.notices == [("stalled", {"seconds": 0, "waits": waits, "runs": [4], "why": why})]


async def test_of_many_that_would_come_too_late_the_first_is_told() -> None:
    stage = Stage()
    bounds = [
        stage.wait("permit", run, find_hold=lambda until=until: held(until)) for run, until in ((4, 900.0), (5, 600.0))
    ]
    assert await stage.acts(0.0)
    assert "in 600 s" in stage.control.message
    assert "900" not in stage.control.message
    assert ["in 900 s" in str(bound.error) for bound in bounds] == [True, False]


async def test_what_a_provider_has_asked_for_has_no_rate_to_raise() -> None:
    stage = Stage()
    stage.wait("permit", 4, find_hold=lambda: Hold(until=60.0, cause="the provider's Retry-After"))
    assert await stage.acts(0.0)
    assert stage.control.message.endswith("--max-stall is 10 s: resume later, or raise --max-stall")


async def test_while_runs_are_in_flight_the_process_itself_may_wait_long() -> None:
    stage = Stage()
    stage.wait("permit", find_hold=lambda: held(7140.0))
    assert not await stage.acts(0.0)
    stage.running = 0
    assert await stage.acts(0.0)


async def test_a_process_with_nothing_to_do_in_a_pause_is_not_stalled() -> None:
    stage = Stage(running=0)
    stage.wait("others")
    stage.control.pause = CommandRow(id=1, verb="pause", who="me", why="", payload={}, at=0)
    assert await stage.dog.observe(0.0)


async def test_another_process_in_which_something_happens_is_waited_for_and_one_that_stands_still_is_left() -> None:
    stage = Stage(running=0)
    stage.wait("others")
    assert await stage.dog.observe(0.0)
    stage.held = (HELD._replace(events=5),)
    assert await stage.dog.observe(0.0)
    assert not await stage.dog.observe(0.0)
    assert await stage.acts(10.0)
    assert "process 7 on there holds 2 runs, the first at position 3" in stage.control.message


async def test_runs_that_only_work_are_ended_much_later() -> None:
    stage = Stage(work_bound_s=100.0)
    assert not await stage.acts(99.0)
    assert await stage.acts(100.0)
    assert stage.control.running.cancel_called
    assert stage.notices == [("stalled", {"seconds": 100, "running": 1})]


async def test_what_does_not_end_although_its_wait_was_ended_is_cancelled() -> None:
    stage = Stage()
    stage.wait("answer", 4)
    assert await stage.acts(10.0)
    assert not stage.control.running.cancel_called
    stage.waits.open.clear()
    assert await stage.acts(10.0)
    assert stage.control.running.cancel_called


async def test_deciding_changes_nothing() -> None:
    stage = Stage()
    bound = stage.wait("answer", 4)
    await stage.dog.observe(0.0)
    assert stage.dog.decide(9.9) is None
    assert stage.dog.decide(10.0) == stage.dog.decide(10.0) is not None
    assert (bound.error, stage.said, stage.notices) == (None, [], [])
