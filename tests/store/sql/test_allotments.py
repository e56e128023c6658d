from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.errors import CapExhausted, StoreFailed
from store.rows import Amount, Caps
from store.sql.allotments import SqliteAllotments
from store.sql.leases import end_lease
from store.sql.writer import Writer
from tests.store.sql.living import Part, ask, ending, sweep, take_part, writing

pytestmark = pytest.mark.anyio
ONE = Amount(calls=1)


def budget(writer: Writer, part: Part, *, poll_s: float = 0.01, idle_s: float = 0.02, **caps: int) -> SqliteAllotments:
    return SqliteAllotments(
        writer,
        sweep_id=part.sweep_id,
        worker_id=part.worker_id,
        caps=Caps(**caps),
        wall=lambda: part.now[0],
        poll_s=poll_s,
        idle_s=idle_s,
    )


def totals(store: Path) -> list[tuple[int, ...]]:
    return ask(store, "SELECT total_calls, total_tokens, total_nusd FROM spend ORDER BY seq DESC LIMIT 1")


async def spend(budget: SqliteAllotments, bound: Amount = ONE, spent: Amount | None = None) -> None:
    await budget.reserve(bound)
    await anyio.lowlevel.checkpoint()
    budget.settle(bound, bound if spent is None else spent)


async def test_without_caps_nothing_is_written_and_nobody_waits(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        spending = budget(writer, part)
        before = writer.transactions
        for _ in range(100):
            await spend(spending)
        await spending.close()
        assert writer.transactions == before
        assert spending.spent == Amount(calls=100)
    assert ask(store, "SELECT count(*) FROM spend") == [(0,)]


async def test_cap_is_used_up_exactly_and_then_refused(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        spending = budget(writer, part, calls=100)
        for _ in range(100):
            await spend(spending)
        with pytest.raises(CapExhausted, match="--max-calls leaves no room"):
            await spending.reserve(ONE)
        await spending.close()
        assert await spending.read_totals() == Amount(calls=100)
    assert totals(store) == [(100, 0, 0)]


async def test_many_requests_at_once_never_pass_the_cap(store: Path) -> None:
    done = refused = 0

    async def work(spending: SqliteAllotments) -> None:
        nonlocal done, refused
        try:
            await spend(spending)
        except CapExhausted:
            refused += 1
        else:
            done += 1

    async with writing(store) as writer:
        part = await take_part(writer)
        spending = budget(writer, part, calls=100)
        async with anyio.create_task_group() as group:
            for _ in range(150):
                group.start_soon(work, spending)
        await spending.close()
    assert (done, refused) == (100, 50)
    assert totals(store) == [(100, 0, 0)]


async def test_request_waits_for_what_is_in_flight_to_give_back(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        spending = budget(writer, part, tokens=100)
        large = Amount(tokens=80)
        await spending.reserve(large)
        entered = anyio.Event()

        async def second() -> None:
            await spending.reserve(large)
            entered.set()

        async with anyio.create_task_group() as group:
            group.start_soon(second)
            await anyio.wait_all_tasks_blocked()
            assert not entered.is_set()
            spending.settle(large, Amount(tokens=20))
            with anyio.fail_after(5):
                await entered.wait()
        spending.settle(large, large)
        with pytest.raises(CapExhausted, match="max-tokens"):
            await spending.reserve(Amount(tokens=1))


async def test_unused_is_given_back_at_the_end(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        spending = budget(writer, part, calls=1000, tokens=100_000)
        for _ in range(3):
            await spend(spending, bound=Amount(calls=1, tokens=10), spent=Amount(calls=1, tokens=7))
        ((granted, _, _),) = totals(store)
        assert granted > 3
        await spending.close()
    assert totals(store) == [(3, 21, 0)]
    assert ask(store, "SELECT kind FROM spend ORDER BY seq DESC LIMIT 1") == [("settle",)]


@pytest.mark.parametrize("in_flight", [1, 4, 16])
async def test_killed_process_takes_no_more_along_than_its_requests_can_need(store: Path, in_flight: int) -> None:
    bound = Amount(calls=1, tokens=1_000, nusd=2_000_000)
    async with writing(store) as writer:
        part = await take_part(writer)
        spending = budget(writer, part, calls=10_000, nusd=500_000_000_000)
        for _ in range(10):
            for _ in range(in_flight):
                await spending.reserve(bound)
            for _ in range(in_flight):
                spending.settle(bound, Amount(calls=1, tokens=10, nusd=20_000))
        for _ in range(in_flight):
            await spending.reserve(bound)
        await writer.submit_and_wait(lambda _connection: None)
        ((calls, _, nusd),) = totals(store)
        assert calls - 10 * in_flight <= 3 * in_flight
        assert nusd - 10 * in_flight * 20_000 <= 3 * in_flight * bound.nusd
        for _ in range(in_flight):
            spending.settle(bound, bound)
        await spending.close()


async def test_single_requests_one_after_the_other_do_not_wait_for_commits(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        spending = budget(writer, part, calls=1_000)
        await spend(spending)
        await writer.submit_and_wait(lambda _connection: None)
        for _ in range(20):
            with anyio.move_on_after(0) as waited:
                await spending.reserve(ONE)
            assert not waited.cancelled_caught
            await writer.submit_and_wait(lambda _connection: None)  # meanwhile the answer comes
            spending.settle(ONE, ONE)
        await spending.close()


async def test_cap_is_a_total_over_invocations_and_may_be_raised(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        first = budget(writer, part, calls=5)
        for _ in range(5):
            await spend(first)
        await first.close()
        second = budget(writer, part, calls=5)
        with pytest.raises(CapExhausted):
            await second.reserve(ONE)
        await second.close()
        third = budget(writer, part, calls=7)
        await spend(third)
        await spend(third)
        with pytest.raises(CapExhausted):
            await third.reserve(ONE)
        await third.close()
    assert totals(store) == [(7, 0, 0)]


async def test_what_was_spent_before_there_was_a_cap_counts(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        for claim in await part.claims.claim_runs(3):
            part.ledger.finish_attempt(ending(claim, calls=2))
        spending = budget(writer, part, calls=7)
        await spend(spending)
        with pytest.raises(CapExhausted):
            await spend(spending)
        await spending.close()


async def test_more_than_the_bound_is_charged_in_full(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        spending = budget(writer, part, tokens=100)
        await spend(spending, bound=Amount(tokens=10), spent=Amount(tokens=500))
        with pytest.raises(CapExhausted, match="max-tokens"):
            await spending.reserve(Amount(tokens=1))
        await spending.close()
    assert totals(store) == [(0, 500, 0)]


async def test_spending_without_a_cap_of_its_own_is_recorded_beside_the_capped_one(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        spending = budget(writer, part, calls=10)
        await spend(spending, bound=Amount(calls=1), spent=Amount(calls=1, tokens=30, nusd=9))
        await spending.close()
    assert totals(store) == [(1, 30, 9)]


async def test_cancelled_request_takes_nothing_with_it(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        spending = budget(writer, part, calls=1)
        await spending.reserve(ONE)
        for _ in range(3):
            with anyio.move_on_after(0.001):
                await spending.reserve(ONE)
        waiting = asyncio.create_task(spending.reserve(ONE))
        await anyio.wait_all_tasks_blocked()
        spending.settle(ONE, Amount())  # lets the waiting one in, which is cancelled before it learns of it
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with anyio.fail_after(5):
            await spend(spending)
        await spending.close()
    assert totals(store) == [(1, 0, 0)]


async def test_unused_grant_of_an_idle_process_comes_to_who_needs_it(store: Path) -> None:
    async with writing(store) as one, writing(store) as two:
        part = await take_part(one)
        other = await take_part(two, sweep_id=part.sweep_id)
        idle = budget(one, part, calls=100)
        await spend(idle)
        assert totals(store)[0][0] > 1
        busy = budget(two, other, calls=100)
        with anyio.fail_after(10):
            for _ in range(99):
                await spend(busy)
            with pytest.raises(CapExhausted):
                await busy.reserve(ONE)
        await busy.close()
        await idle.close()
    assert totals(store) == [(100, 0, 0)]


async def test_request_waits_for_another_process_and_not_for_a_dead_one(store: Path) -> None:
    async with writing(store) as one, writing(store) as two:
        part = await take_part(one)
        other = await take_part(two, sweep_id=part.sweep_id)
        holding = budget(one, part, calls=4)
        waiting = budget(two, other, calls=4)
        for _ in range(4):
            await holding.reserve(ONE)
        refused = anyio.Event()

        async def ask_in_vain() -> None:
            with pytest.raises(CapExhausted):
                await waiting.reserve(ONE)
            refused.set()

        async with anyio.create_task_group() as group:
            group.start_soon(ask_in_vain)
            with anyio.move_on_after(0.1):
                await refused.wait()
            assert not refused.is_set()
            await one.submit_and_wait(end_lease(part.worker_id))
            with anyio.fail_after(5):
                await refused.wait()
    assert totals(store) == [(4, 0, 0)]  # a dead process's grant cannot be proved unspent


async def test_two_processes_that_need_more_than_half_of_the_rest_do_not_starve_each_other(store: Path) -> None:
    large = Amount(tokens=60)
    done: list[str] = []

    async def work(spending: SqliteAllotments) -> None:
        try:
            while True:
                await spend(spending, bound=large, spent=Amount(tokens=10))
                done.append("request")
        except CapExhausted:
            done.append("refused")
            await spending.close()

    async with writing(store) as one, writing(store) as two:
        part = await take_part(one)
        other = await take_part(two, sweep_id=part.sweep_id)
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(work, budget(one, part, tokens=100))
                group.start_soon(work, budget(two, other, tokens=100))
    assert done.count("refused") == 2
    assert done.count("request") == 5  # 0, 10, .. 40 spent leave room for 60; 50 do not
    assert totals(store) == [(0, 50, 0)]


async def test_failed_writer_is_told_to_who_waits(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        spending = budget(writer, part, calls=1)
        await spending.reserve(ONE)
        writer.submit(lambda connection: connection.execute("INSERT INTO nowhere VALUES (1)"))
        with anyio.fail_after(5), pytest.raises(StoreFailed):
            await spending.reserve(ONE)
        with pytest.raises(StoreFailed):
            await spending.reserve(ONE)


@settings(max_examples=15)
@given(
    cap=st.integers(0, 60),
    blocks=st.sampled_from([Amount(calls=1, tokens=1), Amount(calls=7, tokens=100), Amount(calls=200, tokens=10_000)]),
    requests=st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), max_size=40),
)
async def test_two_processes_never_overshoot_and_refuse_nothing_that_fits(
    cap: int, blocks: Amount, requests: list[tuple[int, int]]
) -> None:
    in_use = 0
    spent = 0
    left_over: list[int] = []

    async def work(spending: SqliteAllotments, share: list[tuple[int, int]]) -> None:
        nonlocal in_use, spent
        for most, real in share:
            bound, used = Amount(calls=1, tokens=most), Amount(calls=1, tokens=min(real, most))
            try:
                await spending.reserve(bound)
            except CapExhausted:
                left_over.append(most)
                continue
            in_use += most
            assert spent + in_use <= cap * 10
            await anyio.lowlevel.checkpoint()
            in_use -= most
            spent += used.tokens
            spending.settle(bound, used)
        await spending.close()

    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "runs.db"
        async with writing(store) as one, writing(store) as two:
            part = await take_part(one, plan=sweep(cases=1, repetitions=1))
            other = await take_part(two, sweep_id=part.sweep_id)
            with anyio.fail_after(30):
                async with anyio.create_task_group() as group:
                    for number, (writer, who) in enumerate(((one, part), (two, other))):
                        spending = SqliteAllotments(
                            writer,
                            sweep_id=who.sweep_id,
                            worker_id=who.worker_id,
                            caps=Caps(calls=cap, tokens=cap * 10),
                            wall=lambda: 1_000_000,
                            block=blocks,
                            poll_s=0.002,
                            idle_s=0.004,
                        )
                        group.start_soon(work, spending, requests[number::2])
        calls = len(requests) - len(left_over)
        assert calls <= cap
        # A refusal means that the calls were used up, or that the bound did not fit beside what had been spent by then.
        assert all(calls == cap or spent + most > cap * 10 for most in left_over)
        assert [total[:2] for total in totals(store)] in ([(calls, spent)], [])
