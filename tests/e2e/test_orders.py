"""Pause, continue and cancel from another terminal, while real processes work."""

from __future__ import annotations

import signal
import time  # noqa: TID251 - how soon an order is heard is what is tested

from tests.e2e.conftest import MakeSuite, against, numbered, tiny
from tests.peers.driver import Driver, Endpoint, Started, until

SOON_S = 5.0
"""An order is heard within a second; a loaded machine gets more."""


def outcomes(evalctl: Driver) -> dict[tuple[str, str | None], int]:
    return {(o, r): n for o, r, n in evalctl.query("SELECT outcome, reason, count(*) FROM current GROUP BY 1, 2")}


def held_sweep(evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite, *more: str) -> Started:
    """A sweep of 30 runs whose first three requests are held back by the endpoint."""
    endpoint.plan({"do": {"hold": 0}})
    flags = ("--k", "15", "--concurrency", "3", *more, *against(endpoint))
    started = evalctl.start(*tiny(make_suite(numbered(2)), *flags))
    until(lambda: endpoint.counts()["held"] == 3, "3 requests")
    return started


def says(started: Started, text: str) -> None:
    until(lambda: text in started.said(), f"the process to say {text!r}", patience_s=SOON_S)


def test_a_pause_lets_what_runs_end_and_starts_nothing_until_it_goes_on(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    started = held_sweep(evalctl, endpoint, make_suite)
    told = evalctl.run("pause", "last", "--why", "the \x1b[31mlab is rebooted")
    assert told.code == 0
    assert "1 process works on it" in told.stdout
    says(started, "(the lab is rebooted): no new runs start")
    endpoint.plan()
    endpoint.release()
    until(lambda: len(evalctl.finished_positions()) == 3, "the three to end")
    idle_since = time.monotonic()
    until(lambda: time.monotonic() > idle_since + 1, "a second to pass")
    assert endpoint.counts()["requests"] == 3
    assert started.process.poll() is None
    [(who, why)] = evalctl.query("SELECT who, why FROM control WHERE verb = 'pause'")
    assert "@" in who
    assert why == "the \x1b[31mlab is rebooted"
    assert "paused by" in evalctl.run("status").stdout
    assert evalctl.run("pause", "last").stdout.endswith("it is already paused\n")
    assert evalctl.run("continue", "last").code == 0
    done = started.finish()
    assert done.code == 0, done.stderr
    assert "continued by" in done.stderr
    assert outcomes(evalctl) == {("pass", None): 30}
    evalctl.assert_sound()


def test_a_pause_holds_every_process_and_one_that_comes_to_resume_lifts_it(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    first = held_sweep(evalctl, endpoint, make_suite)
    second = evalctl.start("resume", "last", "--concurrency", "2")
    until(lambda: endpoint.counts()["held"] == 5, "the second's requests")
    assert "2 processes work on it" in evalctl.run("pause", "last").stdout
    for one in (first, second):
        says(one, "paused by")
    endpoint.plan()
    endpoint.release()
    until(lambda: len(evalctl.finished_positions()) == 5, "the five to end")
    for one in (first, second):
        one.signal(signal.SIGINT)
        assert one.finish().code == 130
    assert endpoint.counts()["requests"] == 5
    done = evalctl.run("resume", "last")
    assert done.code == 0, done.stderr
    assert "was paused by" in done.stderr
    assert outcomes(evalctl) == {("pass", None): 30}
    assert [v for (v,) in evalctl.query("SELECT verb FROM control ORDER BY id")] == ["pause", "continue"]


def test_cancel_ends_what_runs_skips_the_rest_and_resume_can_run_it_after_all(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    first = held_sweep(evalctl, endpoint, make_suite)
    second = evalctl.start("resume", "last", "--concurrency", "2")
    until(lambda: endpoint.counts()["held"] == 5, "the second's requests")
    begun = time.monotonic()
    told = evalctl.run("cancel", "last", "--why", "wrong model")
    assert told.code == 0
    assert "cancelled: 2 processes work on it, which end running attempts and skip the rest" in told.stdout
    for one in (first, second):
        done = one.finish(20)
        assert done.code == 1
        assert "(wrong model)" in done.stderr
    assert time.monotonic() - begun < 15
    assert outcomes(evalctl) == {("skipped", "cancelled"): 30}
    assert evalctl.number("SELECT sum(calls) FROM outcome") == 5, "what was asked is accounted for"
    assert evalctl.number("SELECT count(*) FROM unfinished") == 0
    endpoint.plan()
    endpoint.release()
    again = evalctl.run("resume", "last")
    assert again.code == 1
    assert "--cancelled" in again.stdout + again.stderr
    assert endpoint.counts()["requests"] == 5
    done = evalctl.run("resume", "last", "--cancelled")
    assert done.code == 0, done.stderr
    assert outcomes(evalctl) == {("pass", None): 30}
    evalctl.assert_sound()


def test_a_sweep_that_nobody_works_on_is_cancelled_at_once(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    started = held_sweep(evalctl, endpoint, make_suite)
    started.kill()
    endpoint.release()
    told = evalctl.run("cancel", "last")
    assert told.code == 0
    assert "30 runs skipped" in told.stdout
    assert outcomes(evalctl) == {("skipped", "cancelled"): 30}
    assert "nothing is left to cancel" in evalctl.run("cancel", "last").stdout
    assert "nothing is left to pause" in evalctl.run("pause", "last").stdout
    assert "--cancelled" in evalctl.run("continue", "last").stdout


def test_an_order_for_a_sweep_that_does_not_exist_is_one_message(evalctl: Driver) -> None:
    for verb in ("pause", "continue", "cancel"):
        done = evalctl.run(verb, "last")
        assert done.code == 1
        assert "there is no store here yet" in done.stderr


def test_a_hang_up_ends_a_sweep_like_sigterm_unless_it_was_ignored(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    started = held_sweep(evalctl, endpoint, make_suite)
    started.signal(signal.SIGHUP)
    assert started.finish(30).code == 143
    assert evalctl.number("SELECT count(*) FROM current WHERE reason = 'interrupted'") == 3
    kept = evalctl.start("resume", "last", prefix=("nohup",))
    until(lambda: endpoint.counts()["requests"] == 6, "3 more requests")
    kept.signal(signal.SIGHUP)
    endpoint.plan()
    endpoint.release()
    assert kept.finish().code == 0
    assert outcomes(evalctl) == {("pass", None): 30}


def test_an_endpoint_that_never_answers_does_not_hold_a_process_for_ever(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    endpoint.plan({"do": {"hang": True}})
    flags = ("--k", "10", "--concurrency", "2", "--max-stall", "1", *against(endpoint))
    done = evalctl.run(*tiny(make_suite(numbered(1)), *flags), patience_s=30)
    assert done.code == 1
    assert "ended 2 waits for an answer" in done.stderr
    assert outcomes(evalctl) == {("error", "provider"): 2}
    [(message,)] = evalctl.query("SELECT DISTINCT json_extract(detail, '$.message') FROM outcome")
    assert message.startswith("waited for an answer and saw no progress")
    endpoint.plan()
    assert evalctl.run("resume", "last", "--errors").code == 0
    assert outcomes(evalctl) == {("pass", None): 10}


def test_a_process_that_waits_for_another_that_is_stuck_says_so_and_leaves(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    endpoint.plan({"do": {"hold": 0}})
    first = evalctl.start(*tiny(make_suite(numbered(1)), "--k", "2", "--concurrency", "2", *against(endpoint)))
    until(lambda: endpoint.counts()["held"] == 2, "2 requests")
    second = evalctl.run("resume", "last", "--max-stall", "1", patience_s=30)
    assert second.code == 1
    assert "ended 1 wait for another process's runs" in second.stderr
    assert f"process {first.process.pid} on" in second.stderr
    endpoint.release()
    assert first.finish().code == 0


def test_what_cannot_be_written_at_the_end_is_counted(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    started = held_sweep(evalctl, endpoint, make_suite, "--max-stall", "2")
    with evalctl.turnstile_held():
        started.signal(signal.SIGTERM)
        done = started.finish(30)
    assert done.code == 1
    assert "3 outcomes could not be written" in done.stderr
    endpoint.plan()
    endpoint.release()
    assert evalctl.run("resume", "last").code == 0
    assert outcomes(evalctl) == {("pass", None): 30}
