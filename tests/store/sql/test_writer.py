# ruff: noqa: ASYNC220, ASYNC221 - the test waits for a process or a file; nothing else has to go on
from __future__ import annotations

import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from store.errors import StoreFailed, UsageError
from store.events import Waited
from store.sql.database import examine_store
from store.sql.statements import load_all_statements, load_statement
from store.sql.writer import MAX_BACKLOG_ROWS, MAX_BATCH_ROWS, Writer
from tests.store.sql.living import ask, durable, ending, take_part, writing

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[3]
JOIN = """
import sys, anyio
from pathlib import Path
from tests.store.sql.living import take_part, writing

async def main():
    async with writing(Path(sys.argv[1]), checkpoint_bytes=100_000) as writer:
        part = await take_part(writer, sweep_id=1)
        for _ in range(200):
            part.ledger.record_notice("joined", {"text": "x" * 5000})
            await writer.submit_and_wait(lambda connection: None)
    print("joined")

anyio.run(main)
"""
ROOT = Path(__file__).parents[3]


def notice(sweep_id: int, kind: str, payload: str = "{}") -> Callable[..., Any]:
    return lambda connection: connection.execute(load_statement("insert_notice"), (sweep_id, None, 1, kind, payload))


async def test_writer_commits_with_full_synchronisation(store: Path) -> None:
    async with writing(store) as writer:
        pragma = await writer.submit_and_wait(lambda connection: connection.execute("PRAGMA synchronous").fetchone())
    assert pragma == (2,)


async def test_jobs_are_committed_in_order_and_acknowledged_after_the_commit(store: Path) -> None:
    seen: list[tuple[int]] = []
    async with writing(store) as writer:
        part = await take_part(writer)
        for kind in ("first", "second"):
            writer.submit(
                notice(part.sweep_id, kind),
                on_durable=lambda _: seen.append(ask(store, "SELECT count(*) FROM notice")[0]),
            )
        assert seen == []
        await durable(writer)
        assert seen == [(2,), (2,)]
    assert ask(store, "SELECT kind FROM notice ORDER BY id") == [("first",), ("second",)]


async def test_many_events_offered_without_waiting_take_few_transactions(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        (claim, *_) = await part.claims.claim_runs(1)
        log = part.ledger.open_log(claim)
        before = writer.transactions
        for number in range(10_000):
            log.append_event(Waited(why="rate limit", ms=number))
        assert writer.backlog == 10_000
        await durable(writer)
        assert writer.transactions - before <= 10_000 // MAX_BATCH_ROWS * 2
        assert writer.backlog == 0
    assert ask(store, "SELECT count(*), count(DISTINCT seq), max(seq) FROM event") == [(10_000, 10_000, 10_000)]


async def test_closing_drains(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        for _ in range(5_000):
            writer.submit(notice(part.sweep_id, "late"))
    assert ask(store, "SELECT count(*) FROM notice") == [(5_000,)]
    with pytest.raises(StoreFailed, match="has been closed"):
        writer.submit(notice(part.sweep_id, "too late"))


async def test_cancelling_producers_and_everything_around_loses_nothing(store: Path) -> None:
    offered = 0

    async def produce(sweep_id: int, writer: Writer) -> None:
        nonlocal offered
        try:
            while True:
                writer.submit(notice(sweep_id, "busy"))
                offered += 1
                await anyio.lowlevel.checkpoint()
        finally:
            writer.submit(notice(sweep_id, "last words"))
            offered += 1

    with anyio.CancelScope() as everything:
        async with writing(store) as writer:
            part = await take_part(writer)
            async with anyio.create_task_group() as producers:
                for _ in range(20):
                    producers.start_soon(produce, part.sweep_id, writer)
                while offered < 500:
                    await anyio.lowlevel.checkpoint()
                everything.cancel()
    assert ask(store, "SELECT count(*) FROM notice") == [(offered,)]
    assert ask(store, "SELECT count(*) FROM notice WHERE kind = 'last words'") == [(20,)]


async def test_cancelled_wait_does_not_take_the_job_back(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await writer.submit_and_wait(notice(part.sweep_id, "kept"))
        assert scope.cancelled_caught
    assert ask(store, "SELECT kind FROM notice") == [("kept",)]


async def test_refused_job_is_undone_alone(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)

        def refuse(connection: sqlite3.Connection) -> None:
            notice(part.sweep_id, "undone")(connection)
            raise UsageError("no")

        writer.submit(notice(part.sweep_id, "before"))
        async with anyio.create_task_group() as group:

            async def wait() -> None:
                with pytest.raises(UsageError):
                    await writer.submit_and_wait(refuse)

            group.start_soon(wait)
            writer.submit(notice(part.sweep_id, "after"))
        await durable(writer)
    assert ask(store, "SELECT kind FROM notice ORDER BY id") == [("before",), ("after",)]


async def test_room_waits_until_the_backlog_is_small(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        await writer.wait_for_backlog()
        for number in range(MAX_BACKLOG_ROWS + 1):
            writer.submit(notice(part.sweep_id, str(number)))
        await writer.wait_for_backlog()
        assert writer.backlog <= MAX_BACKLOG_ROWS // 2
    assert ask(store, "SELECT count(*) FROM notice") == [(MAX_BACKLOG_ROWS + 1,)]


async def test_failure_reaches_waiters_acknowledgements_and_every_later_producer(store: Path) -> None:
    failures: list[StoreFailed] = []
    async with writing(store) as writer:
        part = await take_part(writer)
        (claim, *_) = await part.claims.claim_runs(1)
        log = part.ledger.open_log(claim)
        log.append_event(Waited(why="x", ms=1))
        await durable(writer)
        log.append_event(Waited(why="x", ms=2))
        writer.submit(
            lambda connection: connection.execute("INSERT INTO nowhere VALUES (1)"), on_failure=failures.append
        )
        with pytest.raises(StoreFailed, match=r"runs\.db: writing failed: no such table: nowhere"):
            await durable(writer)
        lates: list[Callable[[], object]] = [
            lambda: log.append_event(Waited(why="x", ms=3)),
            lambda: part.ledger.finish_attempt(ending(claim)),
            lambda: part.ledger.record_notice("x", {}),
            lambda: writer.submit(notice(part.sweep_id, "x")),
        ]
        for late in lates:
            with pytest.raises(StoreFailed, match="nowhere"):
                late()
        for waits in (
            writer.wait_for_backlog(),
            part.claims.claim_runs(1),
            part.claims.count_remaining(),
            durable(writer),
        ):
            with pytest.raises(StoreFailed, match="nowhere"):
                await waits
        assert [failure.path for failure in failures] == [str(store)]
    # The whole batch was rolled back, and nothing was acknowledged.
    assert ask(store, "SELECT count(*) FROM event") == [(1,)]
    assert part.acknowledged == []


async def test_bug_in_a_job_crashes_loudly(store: Path) -> None:
    def bug(_connection: sqlite3.Connection) -> None:
        raise ZeroDivisionError

    with pytest.RaisesGroup(ZeroDivisionError):
        async with writing(store) as writer:
            writer.submit(bug)


async def test_bug_of_a_listener_leaves_nobody_waiting(store: Path) -> None:
    def bug(_result: object) -> None:
        raise ZeroDivisionError

    told: list[str] = []
    with pytest.RaisesGroup(ZeroDivisionError):
        async with writing(store) as writer:
            part = await take_part(writer)
            writer.submit(notice(part.sweep_id, "x"), on_durable=bug)
            with anyio.CancelScope(shield=True):
                try:
                    await durable(writer)
                except StoreFailed as failure:
                    told.append(failure.cause)
    assert told == ["ZeroDivisionError: ZeroDivisionError"]


async def test_full_disk_is_told_as_such(store: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        async with writing(store) as writer:
            part = await take_part(writer)
            resource.setrlimit(resource.RLIMIT_FSIZE, (store.stat().st_size + 200_000, before[1]))
            for number in range(100):
                writer.submit(notice(part.sweep_id, "big", str(number) * 20_000), size=20_000)
            with pytest.raises(StoreFailed, match=r"full|I/O"):
                await durable(writer)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert ask(store, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.parametrize("replaced", [False, True])
async def test_nothing_is_acknowledged_once_the_file_is_gone(store: Path, replaced: bool) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        store.rename(store.with_name("moved.db"))
        if replaced:
            store.touch()
        with pytest.raises(StoreFailed, match="has been removed or replaced"):
            await writer.submit_and_wait(notice(part.sweep_id, "late"))
        with pytest.raises(StoreFailed, match="has been removed or replaced"):
            writer.submit(notice(part.sweep_id, "later"))


async def test_store_is_written_by_a_process_without_a_free_descriptor(store: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with writing(store, checkpoint_bytes=10_000) as writer:
        part = await take_part(writer)
        load_statement.cache_clear()
        load_all_statements()
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
            for claim in await part.claims.claim_runs(10):
                part.ledger.open_log(claim).append_event(Waited(why="store", ms=100))
                part.ledger.record_notice("note", {"text": "x" * 20_000})
                part.ledger.finish_attempt(ending(claim))
            await durable(writer)
            assert await part.claims.count_remaining() == 0
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert ask(store, "SELECT count(*) FROM current") == [(4,)]


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("sides", [("-shm",), ("-wal",), (".lock",), ("-wal", "-shm"), ("-wal", "-shm", ".lock")])
async def test_nothing_is_written_once_a_side_file_is_gone(store: Path, sides: tuple[str, ...], replaced: bool) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        await writer.submit_and_wait(notice(part.sweep_id, "early"))
        content = store.read_bytes()
        for side in sides:
            path = Path(f"{store}{side}")
            held = path.read_bytes()
            path.unlink()
            if replaced:
                keep = path.with_name(f"{path.name}.kept")
                keep.write_bytes(held)
                keep.rename(path)
        named = f"its side file runs\\.db({'|'.join(map(re.escape, sides))}) has been removed or replaced"
        with pytest.raises(StoreFailed, match=named):
            await writer.submit_and_wait(notice(part.sweep_id, "late"))
    assert store.read_bytes() == content  # not at closing, either


async def test_store_survives_a_second_process_that_joins_after_its_shared_memory_was_deleted(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        await writer.submit_and_wait(notice(part.sweep_id, "early"))
        Path(f"{store}-shm").unlink()
        joined = subprocess.run([sys.executable, "-c", JOIN, str(store)], cwd=ROOT, check=True, capture_output=True)
        assert joined.stdout == b"joined\n"
        with pytest.raises(StoreFailed, match="removed or replaced"):
            await writer.submit_and_wait(notice(part.sweep_id, "late"))
    # From outside: in this process SQLite still has the deleted shared memory.
    look = f"""
import sqlite3
connection = sqlite3.connect({str(store)!r})
for sql in ("PRAGMA integrity_check", "SELECT kind, count(*) FROM notice GROUP BY kind ORDER BY kind"):
    print(connection.execute(sql).fetchall())
"""
    seen = subprocess.run([sys.executable, "-c", look], check=True, capture_output=True, text=True)
    assert seen.stdout == "[('ok',)]\n[('early', 1), ('joined', 200)]\n"


async def test_wal_is_copied_and_cut_when_it_has_grown(store: Path) -> None:
    wal = Path(f"{store}-wal")
    async with writing(store, checkpoint_bytes=100_000) as writer:
        part = await take_part(writer)
        sizes = []
        for _ in range(30):
            await writer.submit_and_wait(notice(part.sweep_id, "big", '"' + "x" * 20_000 + '"'))
            sizes.append(wal.stat().st_size)
        assert writer.checkpoints >= 4
        assert max(sizes) < 200_000
    assert not wal.exists()
    assert ask(store, "SELECT count(*) FROM notice") == [(30,)]


async def test_checkpoint_does_not_wait_for_a_reader(store: Path) -> None:
    wal = Path(f"{store}-wal")
    async with writing(store, checkpoint_bytes=100_000) as writer:
        part = await take_part(writer)
        with closing(sqlite3.connect(store, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM notice").fetchone()
            with anyio.fail_after(10):
                for _ in range(30):
                    await writer.submit_and_wait(notice(part.sweep_id, "big", '"' + "x" * 20_000 + '"'))
            assert reader.execute("SELECT count(*) FROM notice").fetchone() == (0,)
            assert writer.checkpoints <= 30 * 24_000 // 50_000 + 1  # not one after every commit
        for _ in range(10):
            await writer.submit_and_wait(notice(part.sweep_id, "big", '"' + "x" * 20_000 + '"'))
        assert wal.stat().st_size < 5_000_000
    assert ask(store, "SELECT count(*) FROM notice") == [(40,)]


KILLED = """
import sys, anyio
from pathlib import Path
from tests.store.sql.living import ending, take_part, writing

async def main():
    async with writing(Path(sys.argv[1])) as writer:
        part = await take_part(writer)
        claims = await part.claims.claim_runs(10)
        part.ledger.finish_attempt(ending(claims[0]))
        while not part.acknowledged:
            await anyio.sleep(0.001)
        print("acknowledged", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


async def test_acknowledged_result_survives_kill_9(store: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(store)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "acknowledged\n"
        os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert examine_store(store) == "current"  # reading alone can deal with the WAL that was left behind
    assert ask(store, "SELECT outcome FROM current") == [("pass",)]
    assert ask(store, "PRAGMA integrity_check") == [("ok",)]


async def test_representation_tells_the_state(store: Path) -> None:
    async with writing(store) as writer:
        assert repr(writer) == f"<Writer {store}: open, 0 rows waiting>"
    assert repr(writer) == f"<Writer {store}: ended, 0 rows waiting>"
