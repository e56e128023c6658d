"""Ctrl-C once, Ctrl-C twice, SIGTERM."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.e2e.conftest import MakeSuite, against, numbered, tiny
from tests.peers.driver import Driver, Endpoint, Started, marked, positions, until

ENDED = """
SELECT run.position FROM run
  JOIN attempt ON attempt.run_id = run.id JOIN outcome ON outcome.attempt_id = attempt.id
"""


def held_sweep(evalctl: Driver, endpoint: Endpoint, suite: Path) -> Started:
    """A sweep of 20 runs whose first four requests are held back by the endpoint."""
    endpoint.plan({"do": {"hold": 0}})
    flags = ("--k", "10", "--concurrency", "4", *against(endpoint))
    started = evalctl.start(*tiny(suite, *flags))
    until(lambda: endpoint.counts()["held"] == 4, "4 requests")
    return started


def interrupt(started: Started) -> None:
    """One Ctrl-C, and wait until the command has said that it heard it."""
    before = len(started.said())
    started.signal(signal.SIGINT)
    until(lambda: len(started.said()) > before, "a word about the interrupt")


def assert_resumes(evalctl: Driver, endpoint: Endpoint) -> None:
    endpoint.plan()
    endpoint.release()
    done = evalctl.run("resume", "last")
    assert done.code == 0, done.stderr
    assert evalctl.number("SELECT count(*) FROM current WHERE outcome = 'pass'") == 20
    evalctl.assert_sound()


def test_ctrl_c_once_lets_the_running_ones_finish_and_starts_no_more(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    started = held_sweep(evalctl, endpoint, make_suite(numbered(2)))
    interrupt(started)
    endpoint.release()
    done = started.finish()
    assert done.code == 130
    assert endpoint.counts()["requests"] == 4
    assert len(evalctl.finished_positions()) == 4
    assert "resume" in done.stdout + done.stderr
    assert_resumes(evalctl, endpoint)
    assert endpoint.counts()["requests"] == 20


def test_ctrl_c_twice_cancels_and_writes_what_had_begun(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    started = held_sweep(evalctl, endpoint, make_suite(numbered(2)))
    interrupt(started)
    started.signal(signal.SIGINT)
    assert started.finish(20).code == 130
    begun = set(positions(endpoint.idle()))
    assert {position for (position,) in evalctl.query(ENDED)} >= begun
    assert_resumes(evalctl, endpoint)


@pytest.mark.parametrize("tool", [False, True])
def test_sigterm_cancels_kills_what_runs_and_leaves_with_143(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite, tool: bool
) -> None:
    suite = make_suite(numbered(2), allow=["process"])
    call = {"name": "bash", "arguments": {"command": "sleep 300 & sleep 300", "timeoutMs": 600000}}
    endpoint.plan({"do": {"steps": [{"calls": [call]}]} if tool else {"hold": 0}})
    flags = ("--k", "10", "--concurrency", "2", "--allow-process", *against(endpoint))
    started = evalctl.start(*tiny(suite, *flags))
    if tool:
        until(lambda: len(marked(evalctl.sweep_names())) >= 2, "the tool's processes")
    else:
        until(lambda: endpoint.counts()["held"] == 2, "2 requests")
    started.signal(signal.SIGTERM)
    assert started.finish(30).code == 143
    assert marked(evalctl.sweep_names()) == []
    begun = set(positions(endpoint.idle()))
    assert {position for (position,) in evalctl.query(ENDED)} >= begun
    assert_resumes(evalctl, endpoint)
