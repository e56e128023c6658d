import anyio
import pytest

from orchestrator.engine.gate.stopwatch import Stopwatch

pytestmark = pytest.mark.anyio


async def test_work_that_passes_the_limit_is_ended() -> None:
    watch = Stopwatch(0.02)
    with watch.run_watch():
        await anyio.sleep(60)
    assert watch.expired
    assert watch.worked_s >= 0.02


async def test_waiting_does_not_use_up_the_limit() -> None:
    watch = Stopwatch(0.3)
    with watch.run_watch():
        with watch.pause_watch():
            await anyio.sleep(0.4)
        finished = True
    assert finished
    assert not watch.expired
    assert watch.waited_s >= 0.4
    assert watch.worked_s < 0.3


async def test_the_limit_counts_on_after_a_wait() -> None:
    watch = Stopwatch(0.05)
    with watch.run_watch():
        with watch.pause_watch():
            await anyio.sleep(0.06)
        await anyio.sleep(60)
    assert watch.expired


async def test_overlapping_waits_are_counted_once() -> None:
    watch = Stopwatch(60)

    async def wait(seconds: float) -> None:
        with watch.pause_watch():
            await anyio.sleep(seconds)

    with watch.run_watch():
        async with anyio.create_task_group() as group:
            group.start_soon(wait, 0.3)
            group.start_soon(wait, 0.35)
    assert 0.35 <= watch.waited_s < 0.65


async def test_a_cancellation_from_outside_is_not_taken_for_the_limit() -> None:
    watch = Stopwatch(60)
    with anyio.CancelScope() as outside:
        with watch.run_watch():
            outside.cancel()
            await anyio.sleep(60)
    assert outside.cancelled_caught
    assert not watch.expired
