"""The store's disk fills up: said clearly, nothing half done, and `resume` goes on once there is space."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.aftermath import assert_nothing_left
from tests.crash.full_disk import SmallDisk, small_disk
from tests.e2e.conftest import SCRIPT, MakeSuite, against, numbered, tiny
from tests.peers.driver import Driver, Endpoint, Finished, positions, until


@pytest.fixture
def disk(evalctl: Driver, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as disk:
        with capsys.disabled():
            print(f" [disk: {disk.kind}]", end="")  # noqa: T201 - which of the two was met
        evalctl.environment["EVALCTL_STORE"] = str(disk.path / "runs.db")
        # under a limit the interpreter would leave half of a compiled module behind, and stumble over it later
        evalctl.environment["PYTHONDONTWRITEBYTECODE"] = "1"
        yield disk


def assert_told(done: Finished, evalctl: Driver) -> None:
    assert done.code == 1, done.stderr
    assert str(evalctl.store) in done.stderr
    assert "full" in done.stderr or "disk I/O" in done.stderr
    assert "resume" in done.stderr


def assert_readable(evalctl: Driver) -> None:
    assert evalctl.query("PRAGMA integrity_check") == [("ok",)]
    for verb in ("status", "show"):
        done = evalctl.run(verb, "last")
        assert done.code == 0, done.stderr


def assert_resumed(evalctl: Driver, endpoint: Endpoint, *, runs: int, before: set[int], lines: int) -> None:
    endpoint.plan()
    endpoint.release()
    done = evalctl.run("resume", "last")
    assert done.code == 0, done.stderr
    assert evalctl.number("SELECT count(*) FROM current WHERE again = 0") == runs
    evalctl.assert_sound()
    assert before & set(positions(endpoint.idle()[lines:])) == set(), "a finished run was asked again"
    assert_nothing_left(evalctl)


def test_a_disk_that_fills_up_during_a_sweep(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite, disk: SmallDisk
) -> None:
    endpoint.plan({"do": {"hold": 0}})
    flags = tiny(make_suite(numbered(4)), *against(endpoint), "--k", "20", "--concurrency", "4")
    started = evalctl.start(*flags, prefix=disk.prefix)
    until(lambda: endpoint.counts()["held"] == 4, "4 requests")
    endpoint.release(2)
    until(lambda: evalctl.number("SELECT count(*) FROM outcome") == 2, "2 outcomes")
    endpoint.plan({"do": {"size": 60_000}})
    endpoint.release()
    done = started.finish()
    assert_told(done, evalctl)
    lines, before = len(endpoint.idle()), evalctl.finished_positions()
    assert 0 < len(before) < 80
    assert_readable(evalctl)
    disk.give_space()
    assert_resumed(evalctl, endpoint, runs=80, before=before, lines=lines)


def test_a_disk_that_fills_up_while_a_write_is_blocked(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite, disk: SmallDisk
) -> None:
    if disk.kind != "tmpfs":
        pytest.skip("a limit cannot be set on a process that waits for its turn to write")
    endpoint.plan({"do": {"hold": 0}})
    flags = tiny(make_suite(numbered(2)), *against(endpoint), "--k", "4", "--concurrency", "4")
    started = evalctl.start(*flags)
    until(lambda: endpoint.counts()["held"] == 4, "4 requests")
    with evalctl.turnstile_held():
        endpoint.plan({"do": {"size": 60_000}})
        endpoint.release()
        until(lambda: endpoint.counts()["answered"] >= 4, "4 answers, whose outcomes wait to be written")
        disk.fill()
    done = started.finish()
    assert_told(done, evalctl)
    lines, before = len(endpoint.idle()), evalctl.finished_positions()
    assert_readable(evalctl)
    disk.give_space()
    assert_resumed(evalctl, endpoint, runs=8, before=before, lines=lines)


def test_a_disk_that_is_full_from_the_start(evalctl: Driver, make_suite: MakeSuite, disk: SmallDisk) -> None:
    disk.fill()
    flags = tiny(make_suite(numbered(1), scripts={"task-0": SCRIPT}), "--k", "1")
    done = evalctl.start(*flags, prefix=disk.prefix).finish()
    assert done.code == 1
    assert str(evalctl.store) in done.stderr
    disk.give_space()
    assert evalctl.run(*flags).code == 0
    evalctl.assert_sound()
