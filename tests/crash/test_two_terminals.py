"""Two terminals on one sweep of 500 runs, one of them killed with -9: 500 results, and the books balance."""

from __future__ import annotations

from tests.crash.aftermath import assert_money_adds_up, assert_nothing_lost_or_doubled, kill
from tests.e2e.conftest import MakeSuite, against, numbered, tiny
from tests.peers.driver import Driver, Endpoint, until

RUNS = 500
CAPS = ("--max-calls", "2000", "--max-tokens", "1000000000")
WORKERS = "SELECT count(DISTINCT worker_id) FROM attempt"


def test_the_one_that_is_left_finishes_what_the_other_held(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    endpoint.plan({"do": {"latency_ms": 30}})
    size = ("--k", str(RUNS // 5), "--concurrency", "8")
    first = evalctl.start(*tiny(make_suite(numbered(5)), *size, *against(endpoint), *CAPS))
    until(lambda: endpoint.counts()["answered"] >= 50, "50 answers")
    second = evalctl.start("resume", "last", "--concurrency", "8")
    until(lambda: evalctl.number(WORKERS) == 2, "the second's first claim")
    until(lambda: endpoint.counts()["answered"] >= 250, "250 answers")
    crash = kill(evalctl, endpoint, first, others=True)
    assert second.finish().code == 0
    assert_nothing_lost_or_doubled(evalctl, endpoint, crash, runs=RUNS)
    assert_money_adds_up(evalctl, endpoint)
    assert evalctl.number("SELECT count(DISTINCT worker_id) FROM outcome JOIN attempt ON attempt.id = attempt_id") == 2
