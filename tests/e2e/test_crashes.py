"""kill -9 at named points and at any: nothing is lost, nothing counts twice, nothing stays alive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crash.aftermath import Crash, assert_nothing_lost_or_doubled, kill
from tests.e2e.conftest import MakeSuite, against, numbered, tiny
from tests.peers.driver import Driver, Endpoint, marked, until


def sweep(suite: Path, endpoint: Endpoint, *, k: int, concurrency: int, more: tuple[str, ...] = ()) -> list[str]:
    return tiny(suite, *against(endpoint), "--k", str(k), "--concurrency", str(concurrency), *more)


def resume(evalctl: Driver) -> None:
    done = evalctl.run("resume", "last")
    assert done.code == 0, done.stderr


def test_a_sweep_of_200_runs_killed_twice_and_resumed_twice(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    suite = make_suite(numbered(4) | {"tools": "Use the shell."}, allow=["process"])
    call = {"name": "bash", "arguments": {"command": "sleep 0.02"}}
    endpoint.plan({"match": "shell", "do": {"steps": [{"calls": [call]}, {"text": "Done."}]}})
    flags = sweep(suite, endpoint, k=40, concurrency=8, more=("--allow-process",))
    started = evalctl.start(*flags)
    until(lambda: endpoint.counts()["answered"] >= 60, "60 answers")
    first = kill(evalctl, endpoint, started)
    started = evalctl.start("resume", "last")
    until(lambda: endpoint.counts()["answered"] >= 140, "140 answers")
    second = kill(evalctl, endpoint, started)
    assert len(second.finished) > len(first.finished) > 0
    resume(evalctl)
    assert_nothing_lost_or_doubled(evalctl, endpoint, first, second, runs=200)
    assert endpoint.counts()["peak"] <= 8


def crash_and_resume(
    evalctl: Driver,
    endpoint: Endpoint,
    flags: list[str],
    reached: Callable[[], Any],
    what: str,
) -> Crash:
    """Start, wait for the point, kill, let the endpoint answer freely, resume to the end."""
    started = evalctl.start(*flags)
    until(lambda: reached() or started.process.poll() is not None, what)
    crash = kill(evalctl, endpoint, started)
    endpoint.plan()
    endpoint.release()
    resume(evalctl)
    return crash


def test_killed_after_the_commit_of_a_claim(evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite) -> None:
    endpoint.plan({"do": {"hold": 0}})
    flags = sweep(make_suite(numbered(2)), endpoint, k=4, concurrency=3)
    crash = crash_and_resume(evalctl, endpoint, flags, lambda: endpoint.counts()["held"] == 3, "3 requests")
    assert crash.finished == set()
    seen = assert_nothing_lost_or_doubled(evalctl, endpoint, crash, runs=8)
    assert sorted(map(len, seen.values())) == [1] * 5 + [2] * 3


def test_killed_in_the_middle_of_a_stream(evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite) -> None:
    endpoint.plan({"do": {"hold": 3, "chunks": 8}})
    flags = sweep(make_suite(numbered(2)), endpoint, k=4, concurrency=2)
    crash = crash_and_resume(evalctl, endpoint, flags, lambda: endpoint.counts()["held"] == 2, "2 half streams")
    assert_nothing_lost_or_doubled(evalctl, endpoint, crash, runs=8)


def test_killed_during_a_tool_call_leaves_no_process_after_resume(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    command = "setsid sleep 300 & touch started; sleep 300"
    call = {"name": "bash", "arguments": {"command": command, "timeoutMs": 600000}}
    endpoint.plan({"attempt": 1, "do": {"steps": [{"calls": [call]}, {"text": "Done."}]}})
    flags = sweep(make_suite(numbered(1), allow=["process"]), endpoint, k=2, concurrency=1, more=("--allow-process",))

    def sleeping() -> bool:
        return len(marked(evalctl.sweep_names())) >= 2

    crash = crash_and_resume(evalctl, endpoint, flags, sleeping, "the tool's processes")
    seen = assert_nothing_lost_or_doubled(evalctl, endpoint, crash, runs=2)
    assert sorted(map(len, seen.values())) == [1, 2]


def test_killed_before_the_commit_of_an_outcome(evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite) -> None:
    endpoint.plan({"do": {"hold": 0}})
    flags = sweep(make_suite(numbered(2)), endpoint, k=2, concurrency=4)
    started = evalctl.start(*flags)
    until(lambda: endpoint.counts()["held"] == 4, "4 requests")
    with evalctl.turnstile_held():
        endpoint.release()
        assert len(endpoint.idle()) == 4
        crash = kill(evalctl, endpoint, started)
    assert crash.finished == set()
    assert endpoint.counts()["answered"] == 4
    resume(evalctl)
    seen = assert_nothing_lost_or_doubled(evalctl, endpoint, crash, runs=4)
    assert [len(attempts) for attempts in seen.values()] == [2] * 4


def test_killed_after_the_commit_of_an_outcome(evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite) -> None:
    endpoint.plan({"do": {"hold": 0}})
    flags = sweep(make_suite(numbered(2)), endpoint, k=3, concurrency=2)
    started = evalctl.start(*flags)
    until(lambda: endpoint.counts()["held"] == 2, "2 requests")
    endpoint.release(1)
    until(lambda: evalctl.number("SELECT count(*) FROM outcome") == 1, "the first outcome")
    crash = kill(evalctl, endpoint, started)
    assert len(crash.finished) == 1
    endpoint.release()
    resume(evalctl)
    seen = assert_nothing_lost_or_doubled(evalctl, endpoint, crash, runs=6)
    assert all(len(seen[position]) == 1 for position in crash.finished)


def test_killed_inside_a_checkpoint(evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite) -> None:
    endpoint.plan({"do": {"size": 600_000, "chunks": 20}})
    flags = sweep(make_suite(numbered(4)), endpoint, k=10, concurrency=4)
    started = evalctl.start(*flags)
    until(lambda: evalctl.number("SELECT count(*) FROM outcome") >= 1, "the first outcome")
    before = evalctl.store.stat()
    # in WAL mode nothing but a checkpoint writes the main file
    until(
        lambda: evalctl.store.stat().st_mtime_ns != before.st_mtime_ns or started.process.poll() is not None,
        "a checkpoint",
        every_s=0.0002,
    )
    crash = kill(evalctl, endpoint, started)
    assert crash.finished
    assert evalctl.query("PRAGMA integrity_check") == [("ok",)]
    endpoint.plan()
    resume(evalctl)
    assert_nothing_lost_or_doubled(evalctl, endpoint, crash, runs=40)


def test_killed_at_any_moment(evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite) -> None:
    endpoint.plan({"do": {"latency_ms": 15, "chunk_ms": 2}})
    started = evalctl.start(*sweep(make_suite(numbered(3)), endpoint, k=20, concurrency=4))
    crashes = []
    for answers in (7, 19, 36):
        until(lambda: endpoint.counts()["answered"] >= answers, f"{answers} answers")  # noqa: B023 - called at once
        crashes.append(kill(evalctl, endpoint, started))
        started = evalctl.start("resume", "last")
    assert started.finish().code == 0
    assert_nothing_lost_or_doubled(evalctl, endpoint, *crashes, runs=60)


def test_a_resume_with_nothing_to_do_asks_nobody(evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite) -> None:
    assert evalctl.run(*sweep(make_suite(numbered(1)), endpoint, k=3, concurrency=2)).code == 0
    assert f"sweep {evalctl.sweep_names()[-1]}: nothing is left to run" in evalctl.run("resume", "last").stderr
    assert endpoint.counts()["requests"] == 3


def test_a_changed_suite_is_not_resumed(evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite) -> None:
    endpoint.plan({"do": {"hold": 0}})
    suite = make_suite(numbered(1))
    started = evalctl.start(*sweep(suite, endpoint, k=2, concurrency=1))
    until(lambda: endpoint.counts()["held"] == 1, "a request")
    started.kill()
    (suite / "fixtures" / "note" / "note.txt").write_text("hello, changed\n", encoding="ascii")
    done = evalctl.run("resume", "last")
    assert done.code == 1
    assert "fixtures/note/note.txt" in done.stderr
