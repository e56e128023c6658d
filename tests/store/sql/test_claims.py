# ruff: noqa: ASYNC220 - the test waits for a process or a file; nothing else has to go on
from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest

from orchestrator.world import this_worker
from store.rows import Outcome
from store.sql.leases import end_lease, renew_lease
from store.sql.statements import load_statement
from tests.store.sql.living import ask, durable, ending, sweep, take_part, writing

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[3]
CLAIMER = """
import sys, anyio
from pathlib import Path
from tests.store.sql.living import take_part, writing

async def main():
    async with writing(Path(sys.argv[1])) as writer:
        part = await take_part(writer)
        await part.claims.claim_runs(2)
        print("claimed", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


async def test_claims_come_in_whole_pair_groups_in_the_stored_order(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer, plan=sweep(cases=3, variants=2, repetitions=2))
        first = await part.claims.claim_runs(3)
        assert [claim.position for claim in first] == [0, 1, 2, 3]
        assert [claim.pair for claim in first] == [0, 0, 1, 1]
        assert [(claim.case_id, claim.variant) for claim in first[:2]] == [("case-0", "v0"), ("case-0", "v1")]
        assert {claim.number for claim in first} == {1}
        assert {claim.supersedes for claim in first} == {None}
        assert [claim.position for claim in await part.claims.claim_runs(1)] == [4, 5]
        assert [claim.position for claim in await part.claims.claim_runs(100)] == [6, 7, 8, 9, 10, 11]
        assert await part.claims.claim_runs(100) == []
        assert await part.claims.count_remaining() == 12


async def test_claims_are_committed_when_they_are_handed_out(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        claims = await part.claims.claim_runs(2)
        assert ask(store, "SELECT id, run_id, number, worker_id, claimed_at FROM attempt") == [
            (claim.attempt_id, claim.run_id, 1, part.worker_id, claim.claimed_at) for claim in claims
        ]


async def test_two_processes_never_hold_the_same_run(store: Path) -> None:
    async with writing(store) as one, writing(store) as two:
        part = await take_part(one, plan=sweep(cases=20, repetitions=5))
        other = await take_part(two, sweep_id=part.sweep_id)
        held: list[int] = []
        while claims := [*await part.claims.claim_runs(7), *await other.claims.claim_runs(3)]:
            held += [claim.run_id for claim in claims]
        assert len(held) == len(set(held)) == 100


@pytest.mark.parametrize("jump_us", [3_600_000_000, -3_600_000_000])
async def test_a_clock_that_is_set_frees_no_runs_of_a_process_that_goes_on_renewing(store: Path, jump_us: int) -> None:
    steady = [0.0]
    async with writing(store) as writer:
        part = await take_part(writer, alive=lambda _: None, monotonic=lambda: steady[0])
        other = await take_part(writer, sweep_id=part.sweep_id, alive=lambda _: None, monotonic=lambda: steady[0])
        held = await part.claims.claim_runs(10)
        for clock in (part.now, other.now):
            clock[0] += 10_000_000_000  # away from 0, by which nothing has run out
        assert await part.claims.confirm_claims(held) == held
        assert await other.claims.claim_runs(10) == []
        for clock in (part.now, other.now):
            clock[0] += jump_us
        assert await other.claims.claim_runs(10) == []
        part.claims.renew_lease()
        steady[0] += 1.5
        for clock in (part.now, other.now):
            clock[0] += 1_500_000
        assert await part.claims.confirm_claims(held) == held
        assert await other.claims.claim_runs(10) == []
        steady[0] += 1.5
        for clock in (part.now, other.now):
            clock[0] += 1_500_000
        assert len(await other.claims.claim_runs(10)) == len(held)  # the first has not renewed since


async def test_live_process_keeps_its_runs_and_an_expired_lease_frees_them(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer, alive=lambda _: None)
        other = await take_part(writer, sweep_id=part.sweep_id, alive=lambda _: None)
        held = await part.claims.claim_runs(10)
        assert await other.claims.claim_runs(10) == []
        other.now[0] += 999_999
        assert await other.claims.claim_runs(10) == []
        other.now[0] += 1
        taken = await other.claims.claim_runs(10)
        assert [claim.run_id for claim in taken] == [claim.run_id for claim in held]
        assert {claim.number for claim in taken} == {2}


async def test_renewed_lease_keeps_the_runs(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer, alive=lambda _: None)
        other = await take_part(writer, sweep_id=part.sweep_id, alive=lambda _: None)
        await part.claims.claim_runs(10)
        await writer.submit_and_wait(renew_lease(part.worker_id, 10_000_000))
        other.now[0] += 5_000_000
        assert await other.claims.claim_runs(10) == []


async def test_a_process_that_was_away_keeps_only_what_nobody_took(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer, plan=sweep(cases=4, repetitions=1), alive=lambda _: None)
        other = await take_part(writer, sweep_id=part.sweep_id, alive=lambda _: None)
        mine = await part.claims.claim_runs(4)
        assert not part.claims.has_lapsed()
        part.now[0] += 5_000_000
        other.now[0] = part.now[0]
        [taken, finished] = await other.claims.claim_runs(2)
        other.ledger.finish_attempt(ending(finished))
        await durable(writer)
        part.claims.renew_lease()
        assert part.claims.has_lapsed()
        kept = await part.claims.confirm_claims(mine)
        assert {claim.position for claim in mine} - {claim.position for claim in kept} == {
            taken.position,
            finished.position,
        }
        assert not part.claims.has_lapsed()


async def test_renewing_in_time_loses_nothing(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        await part.claims.claim_runs(2)
        for _ in range(5):
            part.now[0] += 600_000
            part.claims.renew_lease()
            await durable(writer)
        assert not part.claims.has_lapsed()


async def test_process_that_left_frees_its_runs_at_once(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        await part.claims.claim_runs(10)
        await writer.submit_and_wait(end_lease(part.worker_id))
        other = await take_part(writer, sweep_id=part.sweep_id)
        assert len(await other.claims.claim_runs(10)) == 4


async def test_own_runs_are_held_even_when_somebody_took_the_lease(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        await part.claims.claim_runs(10)
        await writer.submit_and_wait(end_lease(part.worker_id))
        assert await part.claims.claim_runs(10) == []


async def test_runs_of_a_killed_process_are_free_without_waiting_for_its_lease(store: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CLAIMER, str(store)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "claimed\n"
        async with writing(store) as writer:
            part = await take_part(writer, sweep_id=1)
            assert [claim.position for claim in await part.claims.claim_runs(10)] == [2, 3]
            assert await part.claims.list_dead_attempts() == []
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            assert await part.claims.list_dead_attempts() == [("sweep-00000001", 0, 1), ("sweep-00000001", 1, 1)]
            taken = await part.claims.claim_runs(10)
            assert [(claim.position, claim.number) for claim in taken] == [(0, 2), (1, 2)]
    assert ask(store, "SELECT count(*) FROM outcome") == [(0,)]  # nothing was written about the dead attempts


async def test_clock_that_is_an_hour_ahead_takes_no_run_of_a_running_process(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer, running=lambda _: True)
        await part.claims.claim_runs(4)
        other = await take_part(writer, sweep_id=part.sweep_id, running=lambda _: True)
        other.now[0] += 3_600_000_000
        for _ in range(3):
            assert await other.claims.claim_runs(10) == []
            other.now[0] += 3_600_000_000
        part.claims.renew_lease()
        await durable(writer)
        assert await other.claims.claim_runs(10) == []


async def test_lease_decides_over_a_process_that_is_stopped_or_unseen(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer, alive=lambda _: None, running=lambda _: False)
        await part.claims.claim_runs(4)
        other = await take_part(writer, sweep_id=part.sweep_id, alive=lambda _: None, running=lambda _: False)
        assert await other.claims.claim_runs(10) == []
        other.now[0] += 3_600_000_000
        assert len(await other.claims.claim_runs(10)) == 4
        assert await other.claims.list_dead_attempts() == []  # its processes and directories are left alone


async def test_reused_pid_is_not_taken_for_the_dead_process(store: Path) -> None:
    async with writing(store) as writer:
        me = this_worker("test", 1)
        stranger = await take_part(writer, worker=attrs.evolve(me, born=me.born - 1))
        await stranger.claims.claim_runs(10)
        part = await take_part(writer, sweep_id=stranger.sweep_id)
        assert len(await part.claims.list_dead_attempts()) == 4
        assert len(await part.claims.claim_runs(10)) == 4


async def test_process_of_another_machine_is_waited_for(store: Path) -> None:
    async with writing(store) as writer:
        me = this_worker("test", 1)
        stranger = await take_part(writer, worker=attrs.evolve(me, host="elsewhere", pid=1))
        await stranger.claims.claim_runs(10)
        part = await take_part(writer, sweep_id=stranger.sweep_id)
        assert await part.claims.claim_runs(10) == []
        assert await part.claims.list_dead_attempts() == []


async def test_what_this_invocation_leaves_for_later_is_not_tried_again_by_it(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        for claim in await part.claims.claim_runs(10):
            part.ledger.finish_attempt(ending(claim, "error"))
        await durable(writer)
        assert await part.claims.claim_runs(10) == []
        assert await part.claims.count_remaining() == 0
        assert ask(store, "SELECT count(*) FROM unfinished") == [(4,)]
        later = await take_part(writer, sweep_id=part.sweep_id)
        assert await later.claims.count_remaining() == 4
        results = dict(ask(store, "SELECT run_id, id FROM current"))
        claims = await later.claims.claim_runs(10)
        assert {claim.run_id: claim.supersedes for claim in claims} == results


async def test_finished_runs_are_never_claimed(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        for claim in await part.claims.claim_runs(2):
            part.ledger.finish_attempt(ending(claim))
        await durable(writer)
        later = await take_part(writer, sweep_id=part.sweep_id)
        await writer.submit_and_wait(end_lease(part.worker_id))
        assert [claim.position for claim in await later.claims.claim_runs(10)] == [2, 3]


async def test_errors_and_cancelled_runs_are_tried_again_on_demand(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        endings: list[tuple[Outcome, str]] = [
            ("error", "provider"),
            ("error", "replay_divergence"),
            ("skipped", "cancelled"),
            ("skipped", "stale"),
        ]
        for claim, (outcome, reason) in zip(await part.claims.claim_runs(10), endings, strict=True):
            part.ledger.finish_attempt(ending(claim, outcome, reason=reason, again=False))
        await durable(writer)

        async def wanted(**policy: Any) -> list[int]:
            later = await take_part(writer, sweep_id=part.sweep_id, **policy)
            remaining = await later.claims.count_remaining()
            claims = await later.claims.claim_runs(10)
            await writer.submit_and_wait(end_lease(later.worker_id))
            assert remaining == len(claims)
            return [claim.position for claim in claims]

        assert await wanted() == []
        assert await wanted(errors=True) == [0]
        assert await wanted(cancelled=True) == [2]
        assert await wanted(errors=True, cancelled=True) == [0, 2]


async def test_claiming_a_whole_sweep_looks_at_every_run_once(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer, plan=sweep(cases=100, repetitions=20))
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        async def cost(limit: int) -> int:
            nonlocal steps
            steps = 0
            await writer.submit_and_wait(lambda connection: connection.set_progress_handler(count, 50))
            assert len(await part.claims.claim_runs(limit)) == limit
            await writer.submit_and_wait(lambda connection: connection.set_progress_handler(None, 0))
            return steps

        first = await cost(100)
        for _ in range(17):
            await part.claims.claim_runs(100)
        assert await cost(100) <= first * 1.3  # virtual machine steps, so no clock is involved


async def test_taking_over_a_whole_sweep_looks_at_every_run_once_too(store: Path) -> None:
    async with writing(store) as writer:
        lost = await take_part(writer, plan=sweep(cases=100, repetitions=5))
        await lost.claims.claim_runs(500)
        part = await take_part(writer, sweep_id=lost.sweep_id)
        assert await part.claims.claim_runs(0) == ()
        assert await part.claims.claim_runs(100) == []
        await writer.submit_and_wait(end_lease(lost.worker_id))
        positions: list[int] = []
        while claims := await part.claims.claim_runs(100):
            positions += [claim.position for claim in claims]
        assert positions == list(range(500))


async def test_claiming_seeks_and_never_sorts(store: Path) -> None:
    async with writing(store):
        pass
    question = {"sweep": 1, "position": 0, "high": 0, "errors": 0, "cancelled": 0, "worker": 1, "now": 0}
    with closing(sqlite3.connect(store)) as connection:
        for name in ("claim_free_runs", "claim_remaining"):
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {load_statement(name)}", question)]
            assert not any(line.startswith(("SCAN", "USE TEMP")) for line in plan), plan
        plan = [
            row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {load_statement('claim_open_attempts')}", (1, 1))
        ]
        assert not any(line.startswith("SCAN") for line in plan), plan
