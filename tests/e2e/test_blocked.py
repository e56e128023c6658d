"""A credential that is revoked in the night: few requests more, one message, and a sweep that can be finished."""

from __future__ import annotations

from tests.e2e.conftest import MakeSuite, against, numbered, tiny
from tests.peers.driver import Driver, Endpoint, until


def outcomes(evalctl: Driver) -> dict[tuple[str, str | None], int]:
    return {(o, r): n for o, r, n in evalctl.query("SELECT outcome, reason, count(*) FROM current GROUP BY 1, 2")}


def test_a_revoked_key_stops_the_sweep_and_the_rest_can_be_finished(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    endpoint.plan({"do": {"latency_ms": 30}})
    started = evalctl.start(*tiny(make_suite(numbered(1)), "--k", "60", "--concurrency", "3", *against(endpoint)))
    until(lambda: endpoint.counts()["requests"] >= 10, "ten requests")
    endpoint.plan({"do": {"status": 401}})
    done = started.finish()
    assert done.code == 1
    assert done.stderr.count("no more requests go to") == 1
    refused = [line for line in endpoint.lines() if line["status"] == 401]
    assert 1 <= len(refused) <= 3
    first = outcomes(evalctl)
    assert first["error", "auth"] == len(refused)
    assert first["skipped", "provider_blocked"] == 60 - first["pass", None] - len(refused)
    endpoint.plan()
    assert evalctl.run("resume", "last").code == 1
    assert outcomes(evalctl) == {("pass", None): 60 - len(refused), ("error", "auth"): len(refused)}
    assert evalctl.run("resume", "last", "--errors").code == 0
    assert outcomes(evalctl) == {("pass", None): 60}
    evalctl.assert_sound()


def test_a_throttled_account_is_asked_less_and_recovers(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    endpoint.plan({"do": {"status": 429, "times": 1, "retry_after": 3, "latency_ms": 20}})
    flags = ("--k", "30", "--concurrency", "30", *against(endpoint))
    done = evalctl.run(*tiny(make_suite(numbered(1)), *flags))
    assert done.code == 0, done.stderr
    assert outcomes(evalctl) == {("pass", None): 30}
    cuts = evalctl.number("SELECT count(*) FROM notice WHERE kind = 'limit_cut'")
    throttled = sum(line["status"] == 429 for line in endpoint.lines())
    assert throttled == 30
    assert 1 <= cuts <= throttled / 3  # a burst of throttled answers is one cut
    assert evalctl.number("SELECT max(wall_ms) FROM outcome") < 3000
    assert evalctl.number("SELECT max(waited_ms) FROM outcome") >= 3000


def test_requests_per_minute_are_kept(evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite) -> None:
    flags = ("--k", "15", "--concurrency", "15", "--rpm", "60", *against(endpoint))
    done = evalctl.run(*tiny(make_suite(numbered(1)), *flags))
    assert done.code == 0, done.stderr
    times = sorted(line["at"] for line in endpoint.lines())
    assert times[-1] - times[0] >= 4  # ten at once, then one a second


def test_a_refusal_that_quotes_a_credential_is_told_without_it(evalctl: Driver, make_suite: MakeSuite) -> None:
    secret = "peer-credential-4f1c9b7a2d"
    evalctl.environment["OTHER_API_KEY"] = secret
    fault = {"kind": "auth", "status": 401, "message": f"the key {secret} is unknown"}
    script = {"format": "evalctl.script/1", "plays": [{"answers": [{"text": "never", "faults": [fault]}]}]}
    done = evalctl.run(*tiny(make_suite(numbered(1), scripts={"task-0": script}), "--k", "2"))
    assert done.code == 1
    assert "is unknown" in done.stderr
    assert secret not in done.stdout + done.stderr
