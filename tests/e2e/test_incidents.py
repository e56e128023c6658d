"""The example suite of the documents: what a report says when a model forgets, and when nobody reports usage."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.peers.driver import ROOT, Driver, Finished

EXAMPLE = ROOT / "docs" / "examples" / "incidents"
RATES = ("--input-rate", "1", "--output-rate", "2")


def run(evalctl: Driver, *flags: str | Path) -> Finished:
    done = evalctl.run(
        "--json", "run", "incidents", "--suite-dir", EXAMPLE, "--yes", "--allow-write", "--provider", "scripted", *flags
    )
    assert done.code == 0, done.stderr
    return done


def task(report: Any, name: str) -> Any:
    return next(task for task in report["tasks"] if task["id"] == name)


def test_a_model_forgets_after_compaction_and_the_report_says_both(evalctl: Driver) -> None:
    remembered = task(run(evalctl).json, "remember-the-seal")
    assert (remembered["passes"], remembered["incidents"]) == (5, {})

    report = run(evalctl, "--config", EXAMPLE / "tight.json").json
    forgotten = task(report, "remember-the-seal")
    assert (forgotten["passes"], forgotten["failedBy"]) == (0, {"verifier": 5})
    assert forgotten["incidents"] == {"compaction": 5}
    assert forgotten["measured"]["compaction"] == {"runs": 5, "calls": 5, "inputTokens": 7500, "outputTokens": 450}
    assert forgotten["measured"]["inputTokens"] == 59_000
    assert any("compacted in 5 of 10 judged runs" in note for note in report["notes"])

    shown = evalctl.run("--json", "show", "last/1" if "remember" in _first_task(evalctl) else "last/2").json
    (incident,) = [event for event in shown["events"] if event["kind"] == "incident"]
    assert {"reason": "auto", "replaced": 5, "structured": True}.items() <= incident["detail"].items()
    assert shown["measured"]["calls"] == shown["measured"]["turns"] + 1


def _first_task(evalctl: Driver) -> str:
    return str(evalctl.run("--json", "show", "last/1").json["taskId"])


def test_a_provider_that_reports_no_usage_leaves_figures_out(evalctl: Driver) -> None:
    done = run(evalctl, *RATES)
    silent, told = task(done.json, "finish-the-note"), task(done.json, "remember-the-seal")

    assert (silent["passes"], silent["incidents"]) == (5, {"usage_unreported": 15})
    assert silent["measured"].keys() & {"inputTokens", "outputTokens", "totalTokens"} == set()
    assert "estimated" not in silent
    assert told["estimated"]["costUsd"] > 0
    assert "estimated" not in done.json["summary"]
    for line in done.stdout.splitlines()[:-1]:
        record = json.loads(line)
        assert ("inputTokens" in record["measured"]) == (record["taskId"] == "remember-the-seal")


@pytest.mark.parametrize("name", ["remember-the-seal", "finish-the-note"])
def test_the_example_is_sound(evalctl: Driver, name: str) -> None:
    assert evalctl.run("check", "incidents", "--suite-dir", EXAMPLE).code == 0
    assert (EXAMPLE / "scripts" / f"{name}.json").is_file()
