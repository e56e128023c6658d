# ruff: noqa: ASYNC222 - the test waits for a process or a file; nothing else has to go on
from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from store.errors import StoreRefused, StoreStalled
from store.sql.turnstile import Turnstile
from tests.store.sql.living import ask, durable, ending, take_part, writing

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[3]
HOLDER = """
import sys
from pathlib import Path
from store.sql.turnstile import Turnstile
turnstile = Turnstile(Path(sys.argv[1]), report=print)
assert turnstile.try_enter()
print("inside", flush=True)
sys.stdin.readline()
turnstile.release()
print("left", flush=True)
sys.stdin.readline()
"""


def start_holder(store: Path) -> subprocess.Popen[str]:
    """A process of its own that is inside the turnstile until it reads a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(store)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n"
    return process


@pytest.fixture
def holder(store: Path) -> Iterator[subprocess.Popen[Any]]:
    with start_holder(store) as process:
        yield process
        process.kill()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


async def test_one_at_a_time_within_a_process_too(store: Path) -> None:
    first, second = Turnstile(store, report=print), Turnstile(store, report=print)
    async with first.hold():
        assert not second.try_enter()
    assert second.try_enter()
    second.close()
    first.close()


async def test_left_early_it_is_free_before_the_block_ends(store: Path) -> None:
    first, second = Turnstile(store, report=print), Turnstile(store, report=print)
    async with first.hold():
        first.release()
        assert second.try_enter()
    assert not first.try_enter()
    second.close()
    first.close()


async def test_waiter_lets_the_event_loop_run_names_the_holder_once_and_goes_on(
    store: Path, holder: subprocess.Popen[Any]
) -> None:
    reports: list[str] = []
    turnstile = Turnstile(store, report=reports.append, report_after_s=0.05)
    passed = anyio.Event()

    async def wait() -> None:
        async with turnstile.hold():
            passed.set()

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        while not reports:  # noqa: ASYNC110 - it comes true by itself
            await anyio.sleep(0.005)
        assert not passed.is_set()
        tell(holder)
        with anyio.fail_after(10):
            await passed.wait()
    assert reports == [f"{store}: waiting for process {holder.pid}, which is writing to the store"]
    turnstile.close()


async def test_stopped_holder_is_named_as_stopped_and_waited_for(store: Path, holder: subprocess.Popen[Any]) -> None:
    reports: list[str] = []
    turnstile = Turnstile(store, report=reports.append, report_after_s=0.05)
    os.kill(holder.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, holder.pid, os.WSTOPPED)
    passed = anyio.Event()

    async def wait() -> None:
        async with turnstile.hold():
            passed.set()

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        while not reports:  # noqa: ASYNC110 - it comes true by itself
            await anyio.sleep(0.005)
        assert f"process {holder.pid} (stopped)" in reports[0]
        assert not passed.is_set()
        os.kill(holder.pid, signal.SIGCONT)
        tell(holder)
        with anyio.fail_after(10):
            await passed.wait()
    turnstile.close()


async def test_waiting_too_long_fails_naming_the_holder(store: Path, holder: subprocess.Popen[Any]) -> None:
    turnstile = Turnstile(store, report=print, max_stall_s=0.05)
    with pytest.raises(StoreStalled, match=rf"for process {holder.pid}"):
        async with turnstile.hold():
            pass
    turnstile.close()


async def test_killed_holder_is_outside(store: Path, holder: subprocess.Popen[Any]) -> None:
    holder.kill()
    holder.wait()
    turnstile = Turnstile(store, report=print)
    async with turnstile.hold():
        pass
    turnstile.close()


async def test_commits_wait_for_the_holder_and_lose_nothing(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        claims = await part.claims.claim_runs(10)
        with start_holder(store) as process:
            for claim in claims:
                part.ledger.finish_attempt(ending(claim))
            os.kill(process.pid, signal.SIGSTOP)
            with anyio.move_on_after(0.1) as waited:
                await durable(writer)
            assert waited.cancelled_caught
            assert part.acknowledged == []
            os.kill(process.pid, signal.SIGCONT)
            tell(process)
            await durable(writer)
            process.kill()
    assert len(part.acknowledged) == len(claims) == 4
    assert ask(store, "SELECT count(*) FROM current") == [(4,)]


async def test_lock_file_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    turnstile = Turnstile(tmp_path / "absent" / "runs.db", report=print)
    with pytest.raises(StoreRefused, match=r"runs\.db\.lock: cannot be opened for writing"):
        turnstile.try_enter()


@pytest.mark.parametrize("name", ["link.db", "folder/runs.db", "chain.db", "folder/../runs.db", "deep/folder/runs.db"])
async def test_one_lock_however_the_store_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "real").mkdir()
    store = tmp_path / "real" / "runs.db"
    for link, target in {
        "link.db": store,
        "folder": tmp_path / "real",
        "chain.db": tmp_path / "link.db",
        "runs.db": Path("real/runs.db"),
        "deep": Path(),
    }.items():
        (tmp_path / link).symlink_to(target)
    first, second = Turnstile(store, report=print), Turnstile(tmp_path / name, report=print)
    assert second.lock == Path(f"{store}.lock")
    async with first.hold():
        assert not second.try_enter()
        assert second.describe_holder() == f"process {os.getpid()}"
    assert second.try_enter()
    second.close()
    first.close()
    assert [path.name for path in tmp_path.rglob("*.lock") if not path.parent.is_symlink()] == ["runs.db.lock"]


async def test_store_behind_a_link_is_checkpointed_like_any_other(tmp_path: Path, store: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(store)
    async with writing(link, checkpoint_bytes=1) as writer:
        part = await take_part(writer)
        await durable(writer)
        part.ledger.record_notice("note", {})
        await durable(writer)
        assert writer.checkpoints > 0
