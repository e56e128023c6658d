"""A cap in US dollars holds at the endpoint's own count of tokens, and the books balance whoever was killed."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from store.money import parse_usd
from tests.e2e.conftest import MakeSuite, against, numbered, tiny
from tests.peers.driver import Driver, Endpoint, until

PRICE = {"input": 1.0, "output": "2"}
"""1000 and 2000 nano-USD a token."""


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    """A file of prices for the endpoint's model."""
    file = tmp_path / "prices.json"
    file.write_text(json.dumps({"schemaVersion": 1, "prices": {"peer-1": PRICE}}), encoding="utf-8")
    return file


@pytest.fixture
def short(tmp_path: Path) -> Path:
    """A configuration with a low output limit, so that bounds are near to costs, and with the price."""
    file = tmp_path / "short.json"
    document = {"schemaVersion": 1, "limits": {"maxOutputTokens": 100}, "prices": {"peer-1": PRICE}}
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


def cost(endpoint: Endpoint) -> int:
    """Nano-USD of everything the endpoint has counted, whether or not anybody waited for the answer."""
    return sum(line["input_tokens"] * 1000 + line["output_tokens"] * 2000 for line in endpoint.idle())


def status(evalctl: Driver) -> Any:
    return evalctl.run("status", "--json").json


def test_a_cap_in_usd_without_a_price_is_refused_before_anything_is_asked(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    refused = evalctl.run(*tiny(make_suite(numbered(1)), "--max-cost-usd", "5", *against(endpoint)))
    assert refused.code == 1
    assert "'peer-1'" in refused.stderr
    assert "--prices" in refused.stderr
    assert "evalctl.json" in refused.stderr
    assert endpoint.counts()["requests"] == 0
    assert not evalctl.store.exists()


@pytest.mark.parametrize("amount", ["0", "-1", "five", "1e3"])
def test_a_cap_that_is_no_amount_is_told_in_one_message(evalctl: Driver, make_suite: MakeSuite, amount: str) -> None:
    refused = evalctl.run(*tiny(make_suite(numbered(1)), f"--max-cost-usd={amount}"))
    assert refused.code == 1
    assert "--max-cost-usd" in refused.stderr
    assert "US dollars" in refused.stderr


def test_without_a_price_a_cost_is_unknown_and_asked_for_once(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    assert evalctl.run(*tiny(make_suite(numbered(1)), "--k", "1", *against(endpoint))).code == 0
    assert endpoint.counts()["requests"] == 1
    assert evalctl.query("SELECT cost_nusd, cost_source FROM outcome") == [(None, None)]
    refused = evalctl.run("resume", "last", "--max-cost-usd", "5")
    assert refused.code == 1
    assert "1 request of this sweep" in refused.stderr


def test_a_price_of_zero_is_known(evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite, tmp_path: Path) -> None:
    free = tmp_path / "free.json"
    free.write_text('{"schemaVersion": 1, "prices": {"peer-1": {"input": 0, "output": 0}}}', encoding="ascii")
    flags = ("--k", "2", "--prices", str(free), "--max-cost-usd", "0.01", *against(endpoint))
    assert evalctl.run(*tiny(make_suite(numbered(1)), *flags)).code == 0
    assert evalctl.query("SELECT DISTINCT cost_nusd, cost_source FROM outcome") == [(0, "prices")]


def test_costs_are_exact_in_every_place_that_tells_them(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite, short: Path
) -> None:
    flags = ("--k", "3", "--config", str(short), "--max-cost-usd", "$5", *against(endpoint))
    done = evalctl.run(*tiny(make_suite(numbered(2)), *flags))
    assert done.code == 0, done.stderr
    real = cost(endpoint)
    assert "at most 5 USD, with peer-1 at input 1, output 2" in done.stderr
    assert "audit: 6 planned = 6 final + 0 unfinished" in done.stderr
    assert evalctl.number("SELECT sum(cost_nusd) FROM outcome") == real
    assert evalctl.number("SELECT sum(json_extract(detail, '$.spent.nusd')) FROM outcome") == real
    told = status(evalctl)
    assert told["spent"]["nusd"] == told["granted"]["nusd"] == told["audit"]["charged"]["nusd"] == real
    assert told["audit"]["holds"] is True
    assert told["caps"] == {"nusd": parse_usd("5")}
    [(conditions,)] = evalctl.query("SELECT conditions FROM sweep")
    assert json.loads(conditions)["settings"]["prices"] == {"peer-1": {"input": "1", "output": "2"}}


def test_the_price_is_no_part_of_what_is_measured(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite, prices: Path
) -> None:
    suite = make_suite(numbered(1))
    assert evalctl.run(*tiny(suite, "--k", "1", *against(endpoint))).code == 0
    assert evalctl.run(*tiny(suite, "--k", "1", "--prices", str(prices), *against(endpoint))).code == 0
    assert evalctl.number("SELECT count(DISTINCT digest) FROM cell") == 1


def test_a_cap_in_usd_stops_before_it_is_passed_and_a_higher_one_goes_on(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite, short: Path
) -> None:
    suite = make_suite(numbered(4))
    flags = ("--k", "20", "--config", str(short), "--max-cost-usd", "0.03", "--concurrency", "10", *against(endpoint))
    done = evalctl.run(*tiny(suite, *flags))
    assert done.code == 1
    assert "--max-cost-usd" in done.stderr
    assert "AUDIT" not in done.stderr
    assert 0 < cost(endpoint) <= parse_usd("0.03")
    passed = evalctl.number("SELECT count(*) FROM current WHERE outcome = 'pass'")
    assert 0 < passed < 80
    resumed = evalctl.run("resume", "last", "--max-cost-usd", "5")
    assert resumed.code == 0, resumed.stderr
    assert endpoint.counts()["requests"] == 80
    assert status(evalctl)["spent"]["nusd"] == cost(endpoint)


def test_two_processes_never_pass_one_cap_in_usd_and_the_books_balance(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite, short: Path
) -> None:
    endpoint.plan({"do": {"latency_ms": 20}})
    suite = make_suite(numbered(5))
    flags = ("--k", "40", "--config", str(short), "--concurrency", "10", "--max-cost-usd", "0.05", *against(endpoint))
    first = evalctl.start(*tiny(suite, *flags))
    until(lambda: endpoint.counts()["requests"] >= 1, "the first request")
    second = evalctl.start("resume", "last", "--concurrency", "10")
    ends = [first.finish(), second.finish()]
    assert {end.code for end in ends} == {1}
    assert parse_usd("0.02") < cost(endpoint) <= parse_usd("0.05")
    told = status(evalctl)
    assert told["audit"]["problems"] == []
    assert told["audit"]["charged"]["nusd"] == told["granted"]["nusd"] == cost(endpoint)


def test_what_a_killed_process_held_is_counted_and_named(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite, short: Path
) -> None:
    endpoint.plan({"match": "Hold", "do": {"hold": 0}})
    suite = make_suite(numbered(6) | {"held": "Hold this."})
    flags = ("--k", "4", "--config", str(short), "--max-cost-usd", "5", *against(endpoint))
    first = evalctl.start(*tiny(suite, *flags))
    until(lambda: endpoint.counts()["held"] >= 1 and endpoint.counts()["answered"] >= 3, "a held request")
    first.signal(signal.SIGKILL)
    first.kill()
    endpoint.plan()
    resumed = evalctl.run("resume", "last")
    assert resumed.code == 0, resumed.stderr
    assert "AUDIT" not in resumed.stderr
    assert f"pid {first.process.pid}" in next(line for line in resumed.stderr.splitlines() if "audit: " in line)
    told = status(evalctl)["audit"]
    [lost] = told["lost"]
    assert lost["pid"] == first.process.pid
    assert lost["nusd"] > 0
    assert told["granted"]["nusd"] == told["charged"]["nusd"] + lost["nusd"]
    assert told["charged"]["nusd"] + lost["nusd"] >= cost(endpoint)


def test_usage_that_is_not_reported_is_charged_its_bound_and_the_cap_still_holds(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite, short: Path
) -> None:
    endpoint.plan({"do": {"usage": False}})
    flags = ("--k", "30", "--config", str(short), "--max-cost-usd", "0.03", *against(endpoint))
    assert evalctl.run(*tiny(make_suite(numbered(1)), *flags)).code == 1
    assert 0 < cost(endpoint) <= parse_usd("0.03")
    assert evalctl.query("SELECT DISTINCT cost_source FROM outcome WHERE calls > 0") == [("bound",)]
    told = status(evalctl)["audit"]
    assert told["problems"] == []
    assert told["granted"]["nusd"] == told["charged"]["nusd"] <= parse_usd("0.03")


def test_a_cap_that_comes_later_counts_what_a_killed_process_had_spent(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite, short: Path
) -> None:
    endpoint.plan({"match": "Hold", "do": {"hold": 0}})
    suite = make_suite(numbered(6) | {"held": "Hold this."})
    first = evalctl.start(*tiny(suite, "--k", "4", "--config", str(short), "--max-calls", "500", *against(endpoint)))
    until(lambda: evalctl.number("SELECT count(*) FROM outcome") >= 3, "results")
    first.kill()
    endpoint.plan()
    assert evalctl.run("resume", "last", "--max-tokens", "1").code == 1
    told = status(evalctl)
    assert told["granted"]["tokens"] == told["audit"]["charged"]["tokens"] > 0
    assert told["audit"]["problems"] == []
    assert evalctl.run("resume", "last", "--max-tokens", "1000000").code == 0
    assert status(evalctl)["audit"]["problems"] == []
