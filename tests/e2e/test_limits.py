"""Caps hold at the endpoint's own count, and faults are retried within them."""

from __future__ import annotations

from tests.e2e.conftest import MakeSuite, against, numbered, tiny
from tests.peers.driver import Driver, Endpoint, until


def test_a_cap_on_calls_is_never_overshot_retries_included(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    endpoint.plan({"match": "flaky", "do": {"status": 503, "times": 1}})
    suite = make_suite(numbered(4) | {"unlucky": "A flaky one."})
    flags = ("--k", "40", "--concurrency", "50", "--max-calls", "100", *against(endpoint))
    done = evalctl.run(*tiny(suite, *flags))
    assert done.code == 1
    assert "budget" in done.stdout + done.stderr
    counts = endpoint.counts()
    assert 90 <= counts["requests"] <= 100
    assert counts["peak"] <= 50
    outcomes = dict(evalctl.query("SELECT outcome, count(*) FROM current GROUP BY outcome"))
    assert outcomes.get("pass", 0) > 0
    resumed = evalctl.run("resume", "last", "--max-calls", "400", "--concurrency", "50", patience_s=120)
    assert resumed.code == 0, resumed.stderr
    assert evalctl.number("SELECT count(*) FROM current WHERE outcome = 'pass'") == 200
    assert endpoint.counts()["requests"] <= 400


def test_two_processes_share_one_cap(evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite) -> None:
    endpoint.plan({"do": {"latency_ms": 30}})
    suite = make_suite(numbered(5))
    flags = ("--k", "40", "--concurrency", "10", "--max-calls", "60", *against(endpoint))
    first = evalctl.start(*tiny(suite, *flags))
    until(lambda: endpoint.counts()["requests"] >= 1, "the first request")
    second = evalctl.start("resume", "last", "--concurrency", "10")
    codes = {first.finish().code, second.finish().code}
    assert codes == {1}
    assert endpoint.counts()["requests"] <= 60


def test_a_throttled_request_waits_as_told_and_passes(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    endpoint.plan({"do": {"status": 429, "times": 1, "retry_after": 1}})
    flags = ("--k", "3", "--concurrency", "3", *against(endpoint))
    done = evalctl.run(*tiny(make_suite(numbered(1)), *flags))
    assert done.code == 0, done.stderr
    by_key: dict[str, list[float]] = {}
    for line in endpoint.lines():
        by_key.setdefault(line["key"], []).append(line["at"])
    assert len(by_key) == 3
    assert all(len(times) == 2 and times[1] - times[0] >= 1 for times in by_key.values())


def test_a_permit_that_could_only_come_later_than_any_wait_may_be_is_not_waited_for(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    flags = ("--k", "4", "--concurrency", "2", "--tpm", "1", "--max-stall", "2s", *against(endpoint))
    done = evalctl.run(*tiny(make_suite(numbered(1)), *flags))
    assert done.code == 1
    assert "--tpm 1 allows the next request in" in done.stderr
    assert "--max-stall is 2 s: raise --tpm or --max-stall" in done.stderr
    assert endpoint.counts()["requests"] == 1
    assert "stalled: " in evalctl.run("status", "last").stdout
    resumed = evalctl.run("resume", "last", "--errors", "--tpm", "1000000")
    assert resumed.code == 0, resumed.stderr
    assert endpoint.counts()["requests"] == 4


def test_a_permit_that_comes_within_the_bound_is_waited_for(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    flags = ("--k", "9", "--concurrency", "2", "--rpm", "40", "--max-stall", "2s", *against(endpoint))
    done = evalctl.run(*tiny(make_suite(numbered(1)), *flags))
    assert done.code == 0, done.stderr
    times = sorted(line["at"] for line in endpoint.lines())
    assert times[-1] - times[0] > 2, "6 at once, and then one in 1.5 s"


def test_a_cut_stream_is_asked_again_under_the_same_key(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    endpoint.plan({"do": {"cut": 1}})
    started = evalctl.start(*tiny(make_suite(numbered(1)), "--k", "1", *against(endpoint)))
    until(lambda: endpoint.counts()["requests"] >= 1, "the first request")
    endpoint.plan()
    assert started.finish().code == 0
    keys = [line["key"] for line in endpoint.lines()]
    assert len(keys) >= 2
    assert len(set(keys)) == 1


def test_a_deadline_of_the_sweep_stops_it(evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite) -> None:
    endpoint.plan({"do": {"latency_ms": 100}})
    flags = ("--k", "200", "--concurrency", "2", "--max-wall", "1", *against(endpoint))
    done = evalctl.run(*tiny(make_suite(numbered(1)), *flags))
    assert done.code == 1
    assert 0 < evalctl.number("SELECT count(*) FROM current WHERE outcome = 'pass'") < 200
    evalctl.assert_sound()
