"""Many requests at once, and a slow one among quick ones that fail."""

from __future__ import annotations

from tests.e2e.conftest import MakeSuite, against, numbered, tiny
from tests.peers.driver import Driver, Endpoint, positions, until

ASKED = 150
START = 75
"""Requests that an account is trusted with at first, of so many."""


def test_as_many_requests_are_in_flight_as_were_asked_for(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    endpoint.plan({"do": {"hold": 0}})
    flags = ("--k", str(ASKED + START), "--concurrency", str(ASKED), *against(endpoint))
    started = evalctl.start(*tiny(make_suite(numbered(1)), *flags))
    until(lambda: endpoint.counts()["held"] == START, "the first requests")
    endpoint.release(START)
    until(lambda: endpoint.counts()["held"] == ASKED, "all that may be in flight")
    endpoint.release()
    assert started.finish().code == 0
    assert endpoint.counts()["peak"] == ASKED


def test_what_has_to_be_tried_again_does_not_wait_for_the_slowest(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    tasks = {"slow": "Take your time.", **numbered(5, "Fail twice.")}
    endpoint.plan({"match": "time", "do": {"hold": 0}}, {"match": "Fail", "do": {"status": 503, "times": 2}})
    started = evalctl.start(*tiny(make_suite(tasks), "--k", "1", "--concurrency", "6", *against(endpoint)))
    until(lambda: evalctl.number("SELECT count(*) FROM outcome WHERE outcome = 'pass'") == 5, "the five that failed")
    assert endpoint.counts()["held"] == 1
    endpoint.release()
    assert started.finish().code == 0
    assert sorted(len(attempts) for attempts in positions(endpoint.idle()).values()) == [1] * 6
