"""A gateway that nobody here wrote: its own texts and refusals, and a whole suite passed through it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.conversations import Conversation, conversations, endpoint_rules
from tests.peers.driver import Driver, Finished, driving, running_endpoint
from tests.peers.litellm import MASTER_KEY, Litellm, running_litellm

pytestmark = pytest.mark.peers

SHAPES = ["openai", "openai-responses", "anthropic"]
"""The wire formats it speaks to us; behind it, they are all one."""

PROMPT = "Say that it is done."
NEEDS_THE_TEXT = {
    "schemaVersion": 1,
    "suiteId": "says",
    "suiteVersion": "1.0.0",
    "tasks": [
        {
            "id": "say",
            "prompt": PROMPT,
            "fixture": "fixture",
            "budget": {"maxTurns": 3, "maxWallMs": 60_000},
            "verifiers": [{"kind": "file-contains", "id": "note", "path": "note.txt", "text": "hello"}],
        }
    ],
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Conversation, ...]:
    """How tool-sequences is solved."""
    return conversations("tool-sequences", tmp_path_factory.mktemp("played"))


@pytest.fixture(scope="module")
def litellm(tmp_path_factory: pytest.TempPathFactory, told: tuple[Conversation, ...]) -> Iterator[Litellm]:
    """One for all tests: it takes long to start."""
    folder = tmp_path_factory.mktemp("litellm")
    with (
        running_endpoint(folder / "ledger.jsonl", *endpoint_rules(told)) as behind,
        running_litellm(folder, behind) as peer,
    ):
        yield peer


@pytest.fixture
def evalctl(tmp_path: Path) -> Iterator[Driver]:
    with driving(tmp_path, GATEWAY_KEY=MASTER_KEY) as driver:
        yield driver


@pytest.fixture
def says(tmp_path: Path) -> Path:
    """A suite of one task whose untouched fixture passes."""
    root = tmp_path / "says"
    (root / "fixture").mkdir(parents=True)
    (root / "fixture" / "note.txt").write_text("hello\n", encoding="ascii")
    (root / "suite.json").write_text(json.dumps(NEEDS_THE_TEXT), encoding="utf-8")
    return root


def through(litellm: Litellm, model: str, *, key: str = "GATEWAY_KEY", shape: str = "openai") -> list[str]:
    return ["--provider", shape, "--base-url", litellm.url, "--model", model, "--api-key-env", key]


def run_says(evalctl: Driver, says: Path, *more: str) -> Finished:
    return evalctl.run("--json", "run", "says", "--suite-dir", says, "--yes", *more)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_whole_suite_passes_through_it_with_its_tool_calls(evalctl: Driver, litellm: Litellm, shape: str) -> None:
    already = litellm.behind.counts()["answered"]
    done = evalctl.run(
        *("--json", "run", "tool-sequences", "--k", "1", "--allow-write", "--allow-process"),
        *through(litellm, "passed-through", shape=shape),
        patience_s=300,
    )
    assert done.code == 0, done.stderr
    assert (done.json["summary"]["passes"], done.json["summary"]["judged"]) == (6, 6)
    calls = evalctl.number("SELECT sum(calls) FROM outcome")
    assert litellm.behind.counts()["answered"] - already == calls  # one request here is one there: nobody retried
    assert evalctl.query("SELECT count(*) FROM outcome WHERE input_tokens > 0 AND output_tokens > 0") == [(6,)]
    evalctl.assert_sound()


def test_its_own_text_and_usage_arrive_whole(evalctl: Driver, litellm: Litellm, says: Path) -> None:
    done = run_says(evalctl, says, "--k", "2", *through(litellm, "says-done"))
    assert done.code == 0, done.stderr
    assert done.json["summary"]["passes"] == 2
    shown = evalctl.run("show", "last/1")
    assert "It is done as asked." in shown.stdout
    assert evalctl.query("SELECT count(*) FROM outcome WHERE input_tokens > 0 AND output_tokens > 0") == [(2,)]


def test_its_refusals_end_in_errors_after_bounded_waits(evalctl: Driver, litellm: Litellm, says: Path) -> None:
    done = run_says(evalctl, says, "--k", "1", "--max-stall", "3", *through(litellm, "throttled"))
    assert done.code == 1
    assert evalctl.query("SELECT outcome, reason, judged FROM current") == [("error", "provider", 0)]
    assert done.json["summary"]["judged"] == 0
    assert "rate_limit" in evalctl.run("show", "last/1").stdout


def test_a_wrong_key_is_refused_at_once_and_never_shown(evalctl: Driver, litellm: Litellm, says: Path) -> None:
    wrong = "sk-wrong-9c1e44d0b7aa"
    evalctl.environment["WRONG_KEY"] = wrong
    done = run_says(evalctl, says, "--k", "3", *through(litellm, "says-done", key="WRONG_KEY"))
    assert done.code == 1
    # without a database of keys the proxy says 400 "No connected db." to a key it does not know, not 401
    assert set(evalctl.query("SELECT outcome, calls FROM outcome")) == {("error", 1)}
    shown = evalctl.run("show", "last/1")
    assert wrong not in done.stdout + done.stderr + shown.stdout
    assert MASTER_KEY not in done.stdout + done.stderr + shown.stdout


def test_a_model_it_does_not_have_is_told_after_one_request(evalctl: Driver, litellm: Litellm, says: Path) -> None:
    done = run_says(evalctl, says, "--k", "1", *through(litellm, "no-such-model"))
    assert done.code == 1
    assert evalctl.query("SELECT outcome, calls FROM outcome") == [("error", 1)]
