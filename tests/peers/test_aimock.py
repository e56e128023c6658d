"""The documentation's example suite, live, against an endpoint that nobody here wrote."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.aimock import Aimock, running_aimock
from tests.peers.driver import Driver, clean_environment

pytestmark = pytest.mark.peers

SUITE = Path(__file__).parent / "data" / "my-suite"


@pytest.fixture
def aimock(tmp_path: Path) -> Iterator[Aimock]:
    with running_aimock(tmp_path) as peer:
        yield peer


@pytest.fixture
def evalctl(tmp_path: Path) -> Iterator[Driver]:
    home = tmp_path / "home"
    home.mkdir()
    driver = Driver(home, clean_environment(home))
    yield driver
    driver.close()


def run_my_suite(evalctl: Driver, aimock: Aimock, *more: str) -> list[str]:
    return [
        *("--json", "run", "my-suite", "--suite-dir", str(SUITE), "--yes", "--allow-write", "--allow-process"),
        *("--provider", "openai", "--base-url", aimock.url, "--model", "peer-1", *more),
    ]


def test_the_fixtures_name_the_hash_of_the_untouched_file() -> None:
    untouched = (SUITE / "fixtures" / "fix-add" / "src" / "math.py").read_bytes()
    fixtures = (Path(__file__).parent / "data" / "aimock" / "fixtures.json").read_text(encoding="utf-8")
    assert hashlib.sha256(untouched).hexdigest() in fixtures


def test_the_example_suite_passes_five_times_with_streamed_tool_calls(evalctl: Driver, aimock: Aimock) -> None:
    done = evalctl.run(*run_my_suite(evalctl, aimock, "--k", "5"))
    assert done.code == 0, done.stderr
    report = done.json
    assert (report["summary"]["passes"], report["summary"]["judged"]) == (5, 5)
    [task] = report["tasks"]
    assert (task["id"], task["successRate"]) == ("fix-add", 1)
    asked = aimock.journal()
    assert len(asked) == 20
    assert all(entry["body"]["stream"] for entry in asked)
    assert len({entry["headers"]["idempotency-key"] for entry in asked}) == 20
    assert evalctl.query("SELECT outcome, turns, tool_calls, calls FROM outcome") == [("pass", 4, 3, 4)] * 5
    assert evalctl.query("SELECT DISTINCT path, change FROM file_change") == [("src/math.py", "changed")]
    evalctl.assert_sound()


def test_records_say_what_each_run_was_judged_by(evalctl: Driver, aimock: Aimock) -> None:
    done = evalctl.run(*run_my_suite(evalctl, aimock, "--k", "1"))
    record = json.loads(done.stdout.splitlines()[0])
    assert {verifier["id"]: verifier["verdict"] for verifier in record["verifiers"]} == {
        "check": "pass",
        "scope": "pass",
    }
