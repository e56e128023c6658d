from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio
import pytest

from orchestrator.engine.board import Board
from orchestrator.engine.control.control import Control
from orchestrator.engine.control.waits import Waits
from orchestrator.engine.dispatch import Dispatch
from orchestrator.engine.gate.governor import Governor
from orchestrator.engine.gate.permits import Permits
from store.records import CommandRow
from store.rows import Claim
from tests.orchestrator.engine.plain_ports import PlainClaims, claim

pytestmark = pytest.mark.anyio


def claims(count: int) -> list[Claim]:
    return [claim(position) for position in range(1, count + 1)]


class Runs:
    """Executes by taking a breath, and keeps who ran and how many at once."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.started: list[int] = []
        self.now = 0
        self.peak = 0
        self.tasks = 0

    async def __call__(self, claim: Claim) -> None:
        self.started.append(claim.position)
        self.now += 1
        self.peak = max(self.peak, self.now)
        self.tasks = max(self.tasks, len(anyio.get_running_tasks()))
        try:
            await anyio.sleep(self.seconds)
        finally:
            self.now -= 1


def dispatch(
    source: PlainClaims,
    runs: Runs | Callable[..., Awaitable[None]],
    *,
    concurrency: int = 4,
    control: Control | None = None,
    permits: Permits | None = None,
    waits: Waits | None = None,
) -> Dispatch:
    return Dispatch(
        claims=source,
        execute=runs,
        account_of=lambda _claim: "a",
        permits={"a": permits or Permits(Governor(cap=1000, limit=1000))},
        control=control or Control(),
        concurrency=concurrency,
        waits=waits,
    )


async def test_every_run_is_executed_once_in_the_stored_order() -> None:
    runs = Runs()
    await dispatch(PlainClaims(claims(50)), runs).run_all()
    assert runs.started == list(range(1, 51))


async def test_runs_in_flight_reach_the_concurrency_and_never_pass_it() -> None:
    runs = Runs(0.005)
    await dispatch(PlainClaims(claims(40)), runs, concurrency=8).run_all()
    assert runs.peak == 8


async def test_live_tasks_stay_a_constant_above_the_concurrency_however_long_the_plan() -> None:
    runs = Runs()
    await dispatch(PlainClaims(claims(3000)), runs, concurrency=8).run_all()
    assert len(runs.started) == 3000
    assert runs.tasks <= 8 + 6


async def test_runs_are_claimed_in_batches_a_little_ahead_of_need() -> None:
    source = PlainClaims(claims(100))
    await dispatch(source, Runs(), concurrency=10).run_all()
    assert len(source.asked) <= 12


async def test_what_was_being_claimed_when_draining_began_is_on_the_board() -> None:
    class Slow(PlainClaims):
        async def claim_runs(self, limit: int) -> Sequence[Claim]:
            found = await super().claim_runs(limit)
            if found and found[0].position > 1:
                control.start_draining("blocked", "no more")
            await anyio.lowlevel.checkpoint()
            return found

    control, runs = Control(), Runs()
    dispatching = dispatch(Slow(claims(4)), runs, concurrency=1, control=control)
    await dispatching.run_all()
    unstarted = [claim.position for claim in dispatching.board.take_unstarted()]
    assert sorted(runs.started + unstarted) == list(range(1, len(unstarted) + len(runs.started) + 1))
    assert unstarted


async def test_draining_lets_running_runs_end_and_starts_no_others() -> None:
    control, started, ended = Control(), [], []
    all_running = anyio.Event()

    async def execute(claim: Claim) -> None:
        started.append(claim.position)
        if len(started) == 4:
            all_running.set()
        await control.draining.wait()
        ended.append(claim.position)

    share = dispatch(PlainClaims(claims(8)), execute, control=control)
    async with anyio.create_task_group() as group:
        group.start_soon(share.run_all)
        await all_running.wait()
        control.start_draining("interrupt", "")
    assert started == ended == [1, 2, 3, 4]
    assert [claim.position for claim in share.board.take_unstarted()] == [5, 6, 7, 8]
    assert repr(share.board) == "<Board: 0 waiting, 0 running>"


async def test_what_went_to_others_while_this_process_was_away_is_not_started() -> None:
    source, started = PlainClaims(claims(8)), []

    async def execute(claim: Claim) -> None:
        started.append(claim.position)
        if claim.position == 1:
            source.lost = {3, 4}

    await dispatch(source, execute, concurrency=2).run_all()
    assert started == [1, 2, 5, 6, 7, 8]


async def test_a_run_starts_only_when_its_account_has_room() -> None:
    governor = Governor(cap=2)
    held = governor.start_request(0.0)
    governor.start_request(0.0)
    permits, runs = Permits(governor), Runs()
    share = dispatch(PlainClaims(claims(5)), runs, permits=permits)
    async with anyio.create_task_group() as group:
        group.start_soon(share.run_all)
        await anyio.wait_all_tasks_blocked()
        assert runs.started == []
        permits.give_back(held)
    assert len(runs.started) == 5


@pytest.mark.parametrize("why", ["no room", "no runs"])
async def test_draining_sends_idle_workers_home(why: str) -> None:
    control, runs = Control(), Runs()
    governor = Governor(cap=1)
    governor.start_request(0.0)
    source = PlainClaims(claims(5 if why == "no room" else 0), held_by_others=1)
    share = dispatch(source, runs, control=control, permits=Permits(governor))
    async with anyio.create_task_group() as group:
        group.start_soon(share.run_all)
        await anyio.wait_all_tasks_blocked()
        control.start_draining("interrupt", "")
    assert runs.started == []


async def test_the_end_waits_for_runs_that_another_process_holds() -> None:
    source = PlainClaims(claims(3), held_by_others=1)
    runs = Runs()
    async with anyio.create_task_group() as group:
        group.start_soon(dispatch(source, runs).run_all)
        await anyio.wait_all_tasks_blocked()
        source.waiting.append(claim(9))  # the other process died: its run is free
        source.held_by_others = 0
    assert runs.started == [1, 2, 3, 9]


def test_a_board_serves_accounts_in_turn_and_skips_those_without_room() -> None:
    board = Board()
    board.add_claims("a", claims(2))
    board.add_claims("b", [claim(10), claim(11)])
    started = [board.start_next(lambda account: account != "never").position for _ in range(4)]
    assert started == [1, 10, 2, 11]
    assert board.start_next(lambda _: True) is None
    assert repr(board) == "<Board: 0 waiting, 4 running>"


def test_a_board_starts_nothing_for_an_account_without_room() -> None:
    board = Board()
    board.add_claims("a", claims(1))
    assert board.start_next(lambda _: False) is None
    assert board.waiting == 1


def order(verb: str, number: int) -> CommandRow:
    return CommandRow(id=number, verb=verb, who="me", why="", payload={}, at=0)


async def test_a_pause_starts_nothing_and_is_waited_out() -> None:
    control, started, release = Control(), [], anyio.Event()

    async def execute(claim: Claim) -> None:
        started.append(claim.position)
        await release.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(dispatch(PlainClaims(claims(8)), execute, control=control, concurrency=2).run_all)
        await anyio.wait_all_tasks_blocked()
        control.obey_command(order("pause", 1))
        release.set()
        await anyio.wait_all_tasks_blocked()
        assert started == [1, 2]
        control.obey_command(order("continue", 2))
    assert started == list(range(1, 9))


async def test_a_pause_does_not_keep_a_sweep_open_of_which_nothing_is_left() -> None:
    control, started = Control(), []

    async def execute(claim: Claim) -> None:
        started.append(claim.position)
        control.obey_command(order("pause", 1))

    await dispatch(PlainClaims(claims(1)), execute, control=control).run_all()
    assert started == [1]


async def test_draining_ends_a_pause() -> None:
    control, runs = Control(), Runs()
    control.obey_command(order("pause", 1))
    async with anyio.create_task_group() as group:
        group.start_soon(dispatch(PlainClaims(claims(3)), runs, control=control).run_all)
        await anyio.wait_all_tasks_blocked()
        control.start_draining("interrupt", "")
    assert runs.started == []


async def test_it_is_known_that_only_another_processs_runs_are_waited_for() -> None:
    waits, source = Waits(), PlainClaims(claims(1), held_by_others=1)
    share = dispatch(source, Runs(), permits=Permits(Governor(cap=4)), concurrency=2, waits=waits)
    async with anyio.create_task_group() as group:
        group.start_soon(share.run_all)
        with anyio.fail_after(10):
            while waits.count_kinds() != {"others": 1}:  # noqa: ASYNC110 - a count is all there is to see
                await anyio.sleep(0.01)
        source.held_by_others = 0
    assert waits.open == set()


async def test_an_account_without_room_holds_no_other_back() -> None:
    runs, throttled = Runs(), Permits(Governor(cap=1, limit=1))
    ticket = throttled.try_take(0)
    sharing = Dispatch(
        claims=PlainClaims(claims(40)),
        execute=runs,
        account_of=lambda claim: "throttled" if claim.position % 2 else "free",
        permits={"throttled": throttled, "free": Permits(Governor(cap=1000, limit=1000))},
        control=Control(),
        concurrency=2,
    )
    async with anyio.create_task_group() as group:
        group.start_soon(sharing.run_all)
        await anyio.wait_all_tasks_blocked()
        assert [position for position in runs.started if position % 2] == []
        assert len(runs.started) >= 8
        throttled.give_back(ticket)
    assert sorted(runs.started) == list(range(1, 41))


async def test_its_own_runs_in_flight_are_no_other_processs() -> None:
    waits, ended = Waits(), anyio.Event()
    source = PlainClaims(claims(1), held_by_others=1)

    async def execute(_claim: Claim) -> None:
        await ended.wait()
        source.held_by_others = 0

    share = dispatch(source, execute, permits=Permits(Governor(cap=4)), concurrency=2, waits=waits)
    async with anyio.create_task_group() as group:
        group.start_soon(share.run_all)
        await anyio.wait_all_tasks_blocked()
        assert waits.count_kinds() == {}
        ended.set()
