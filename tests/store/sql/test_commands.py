from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from orchestrator.world import this_worker
from store.errors import StoreFailed
from store.events import CallSent, Incident, WorkStarted
from store.sql.commands import CommandVerb, find_command_in_force, record_command
from store.sql.reader import Reader
from store.sql.turnstile import Turnstile
from store.sql.writer import Writer
from tests.store.sql.living import durable, ending, sweep, take_part, writing

pytestmark = pytest.mark.anyio
CALL = CallSent(request=1, account="a", model="m", bytes=3)


async def told(writer: Writer, sweep_id: int, verb: CommandVerb, why: str = "", who: str = "me@here") -> None:
    await writer.submit_and_wait(record_command(sweep_id, verb, who=who, why=why, payload={}, at=7))


async def test_the_last_of_pause_continue_and_cancel_holds(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        assert await writer.run_query(find_command_in_force(part.sweep_id)) is None
        await told(writer, part.sweep_id, "pause", "lunch")
        await told(writer, part.sweep_id, "raise_cap")
        held = await writer.run_query(find_command_in_force(part.sweep_id))
        assert (held.verb, held.who, held.why, held.at) == ("pause", "me@here", "lunch", 7)
        await told(writer, part.sweep_id, "continue")
        assert (await writer.run_query(find_command_in_force(part.sweep_id))).verb == "continue"
        assert await writer.run_query(find_command_in_force(part.sweep_id + 1)) is None


async def test_a_reason_that_is_no_plain_text_comes_back_unharmed(store: Path) -> None:
    nasty = "nul \x00 and \ud800 and \\u0000"
    async with writing(store) as writer:
        part = await take_part(writer)
        await told(writer, part.sweep_id, "pause", nasty, who=nasty)
        held = await writer.run_query(find_command_in_force(part.sweep_id))
        assert (held.why, held.who) == (nasty, nasty)
    with Reader(store) as reader:
        [row] = reader.list_commands(part.sweep_id)
        assert (row.why, row.who) == (nasty, nasty)


async def test_looking_waits_for_no_other_process(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        other = Turnstile(store, report=print)
        async with other.hold():
            with anyio.fail_after(5):
                assert await writer.run_query(find_command_in_force(part.sweep_id)) is None


async def test_what_another_process_holds_changes_when_something_happens_there(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer, plan=sweep(cases=3, repetitions=1))
        other = await take_part(writer, sweep_id=part.sweep_id)
        assert await other.claims.list_other_holders() == ()
        claim, _ = await part.claims.claim_runs(2)
        [before] = await other.claims.list_other_holders()
        me = this_worker("", 0)
        assert (before.host, before.pid, before.runs, before.first) == (me.host, me.pid, 2, 0)
        assert await other.claims.list_other_holders() == (before,)
        part.ledger.open_log(claim).append_event(CALL)
        await durable(writer)
        assert await other.claims.list_other_holders() != (before,)
        assert await part.claims.list_other_holders() == ()


async def test_outcomes_that_cannot_be_written_in_the_time_that_is_left_are_counted(store: Path) -> None:
    other = Turnstile(store, report=print)
    async with writing(store) as writer:
        part = await take_part(writer)
        claims = await part.claims.claim_runs(3)
        async with other.hold():
            for claim in claims:
                part.ledger.finish_attempt(ending(claim))
            writer.limit_waits(0.05)
            with anyio.fail_after(10), pytest.raises(StoreFailed, match="waited"):
                await durable(writer)
    assert writer.lost == {"outcomes": len(claims)}


async def test_nothing_is_lost_where_all_is_written(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        for claim in await part.claims.claim_runs(3):
            part.ledger.finish_attempt(ending(claim))
    assert writer.lost == {}


async def test_what_an_attempt_is_about_is_its_last_event_that_tells(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer, plan=sweep(cases=3, repetitions=1))
        first, second, _ = await part.claims.claim_runs(3)
        log = part.ledger.open_log(first)
        log.append_event(WorkStarted(instructions="", prompt="", tools=(), model="m"))
        log.append_event(CALL)
        log.append_delta("text", 1, "so far")
        log.append_event(Incident(name="x"))
        part.ledger.finish_attempt(ending(second))
        await durable(writer)
        with Reader(store) as reader:
            doing = reader.list_running_attempts(part.sweep_id)
            assert [(one.position, one.kind) for one in doing] == [(0, "call_sent"), (2, None)]
            assert doing[0].payload["account"] == "a"
            assert (doing[1].at, doing[1].payload) == (None, {})
            assert reader.count_recent_results(part.sweep_id, 2_000_000) == 1
            assert reader.count_recent_results(part.sweep_id, 2_000_001) == 0
