"""The documentation's example suite, live, against an endpoint that nobody here wrote."""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.aimock import Aimock, running_aimock
from tests.peers.conversations import Conversation, aimock_fixtures, conversations
from tests.peers.driver import Driver, Finished, driving

pytestmark = pytest.mark.peers

PATHS = {
    "openai": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "ollama": "/api/chat",
}
SHAPES = list(PATHS)
"""The wire formats that are asked for; aimock speaks them all."""

SUITE = Path(__file__).parent / "data" / "my-suite"


@pytest.fixture
def aimock(tmp_path: Path) -> Iterator[Aimock]:
    with running_aimock(tmp_path) as peer:
        yield peer


@pytest.fixture
def evalctl(tmp_path: Path) -> Iterator[Driver]:
    with driving(tmp_path) as driver:
        yield driver


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


@pytest.fixture(scope="module")
def tool_sequences(tmp_path_factory: pytest.TempPathFactory) -> tuple[Conversation, ...]:
    """How each of its tasks is solved; playing it takes a while, so once."""
    return conversations("tool-sequences", tmp_path_factory.mktemp("played"))


@contextlib.contextmanager
def saying(told: tuple[Conversation, ...], folder: Path, shape: str) -> Iterator[Aimock]:
    """An aimock that says what solves a suite."""
    file = folder / "fixtures.json"
    fixtures = aimock_fixtures(told, by_item=shape == "openai-responses")
    file.write_text(json.dumps(fixtures), encoding="utf-8")
    with running_aimock(folder, fixtures=file) as peer:
        yield peer


def run_bundled(evalctl: Driver, aimock: Aimock, suite: str, shape: str) -> Finished:
    return evalctl.run(
        *("--json", "run", suite, "--k", "1", "--allow-write", "--allow-process"),
        *("--provider", shape, "--base-url", aimock.base_url(shape), "--model", "peer-1"),
        patience_s=300,
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_a_whole_suite_of_stateful_tool_use_passes_in_every_wire_format(
    evalctl: Driver, tool_sequences: tuple[Conversation, ...], tmp_path: Path, shape: str
) -> None:
    with saying(tool_sequences, tmp_path, shape) as aimock:
        done = run_bundled(evalctl, aimock, "tool-sequences", shape)
        asked = aimock.journal()
    assert done.code == 0, done.stderr
    assert (done.json["summary"]["passes"], done.json["summary"]["judged"]) == (6, 6)
    assert {entry["path"] for entry in asked} == {PATHS[shape]}
    assert len({entry["headers"]["idempotency-key"] for entry in asked}) == len(asked)
    assert len(asked) == evalctl.number("SELECT sum(calls) FROM outcome")
    evalctl.assert_sound()


def test_the_coding_suite_passes_with_its_refused_edits(evalctl: Driver, tmp_path: Path) -> None:
    with saying(conversations("smoke-coding", tmp_path / "played"), tmp_path, "openai") as aimock:
        done = run_bundled(evalctl, aimock, "smoke-coding", "openai")
    assert done.code == 0, done.stderr
    assert (done.json["summary"]["passes"], done.json["summary"]["judged"]) == (7, 7)
