from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from orchestrator.cli import app
from orchestrator.reports.status.standing import standing_of
from store.events import Call, CallSent, Event, Incident, ToolCompleted, ToolStarted, WorkEnded, WorkStarted
from store.rows import Claim, FileChange, Verdict
from store.sql.reader import Reader
from tests.orchestrator.reports import stored

EVIL = "\x1b[2J\x1b]0;owned\x07done\x00\ud835"

OUTCOMES: dict[str, list[dict[str, Any] | None]] = {
    "a": [{}, {"outcome": "fail", "verdicts": (Verdict(verifier="check", kind="command", verdict="fail"),)}],
    "b": [{"outcome": "error", "reason": "provider", "detail": {"message": "connection refused"}}, None],
    "c": [{"outcome": "skipped", "reason": "budget", "again": True}] * 2,
}


def events(claim: Claim) -> tuple[Event, ...]:
    return (
        WorkStarted(instructions="be good", prompt=f"Fix it {EVIL}", tools=("bash",), model="m-1"),
        CallSent(request=1, account="scripted", model="m-1", bytes=10),
        Call(request=1, account="scripted", status=200, finish="tool_calls"),
        ToolStarted(id="t1", name="bash", arguments={"command": "echo hi"}, effect="process"),
        ToolCompleted(id="t1", name="bash", is_error=False, output=EVIL + "x" * 5000, ms=3),
        Incident(name="approval_denied", detail={"effect": "external"}),
        WorkEnded(stop="completed", text=EVIL),
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    changes = (FileChange(path="src/add.py", change="changed", content=b"abc"),)
    outcomes = {**OUTCOMES, "a": [{"changes": changes}, OUTCOMES["a"][1]]}
    return stored.write(tmp_path / "runs.db", stored.sweep(list(outcomes), 2), outcomes, events, leaving=False)


@pytest.fixture
def evalctl(store: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def called(*words: str) -> tuple[int, str, str]:
        code = app.run_command(["--store", str(store), *words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return called


def harmless(text: str) -> bool:
    return all(letter == "\n" or letter.isprintable() for letter in text)


def test_status_counts_results_by_outcome_and_cause_and_says_what_is_left(
    evalctl: Callable[..., tuple[int, str, str]],
) -> None:
    code, out, _ = evalctl("status")
    assert code == 0
    assert "5 of 6 runs have a result, 3 of them final, 0 claimed" in out
    assert "1  error(provider)  (in no rate)" in out
    assert "2  skipped(budget)  (in no rate, runs again with resume)" in out
    assert "1  without a result" in out
    assert "calls of at most 100" in out
    assert "runs the 3 that are left; raise the caps that are spent" in out


def test_show_lists_the_runs_of_a_sweep(evalctl: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = evalctl("show", "last", "--runs")
    assert code == 0
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == [str(n) for n in range(1, 7)]
    assert sum("no result yet" in line for line in lines) == 1
    assert sum("skipped(budget)" in line for line in lines) == 2
    assert harmless(out)
    code, out, _ = evalctl("show", "last", "--runs", "--json")
    assert [json.loads(line)["status"] for line in out.splitlines()].count("skipped") == 2


def test_a_position_and_a_list_of_runs_do_not_go_together(evalctl: Callable[..., tuple[int, str, str]]) -> None:
    code, _, told = evalctl("show", "last/1", "--runs")
    assert code == 1
    assert "--runs" in told


def test_status_as_json(evalctl: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = evalctl("status", stored.NAME[:12], "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["sweep"], found["state"], found["planned"], found["remaining"]) == (stored.NAME, "stopped", 6, 3)
    assert found["workers"][0]["state"] == "unknown"
    assert found["caps"] == {"calls": 100}
    assert {(row["outcome"], row["reason"]): row["count"] for row in found["results"]} == {
        ("pass", None): 1,
        ("fail", None): 1,
        ("error", "provider"): 1,
        ("skipped", "budget"): 2,
    }


@pytest.mark.parametrize(
    ("alive", "later", "state", "in_flight"),
    [
        (True, 0, "running", 1),
        (None, 0, "running", 1),
        (False, 0, "died", 0),
        (True, 61, "stalled", 0),
        (None, 61, "unknown", 0),
    ],
)
def test_a_process_is_in_flight_while_its_lease_lasts_and_it_is_not_known_to_be_dead(
    store: Path, alive: bool | None, later: int, state: str, in_flight: int
) -> None:
    with Reader(store) as reader:
        now = stored.AT + later * 1_000_000
        found = standing_of(reader, reader.find_sweep("last"), now=now, is_alive=lambda _: alive)
    assert [worker.state for worker in found.workers] == [state]
    assert found.in_flight == in_flight
    assert found.state == ("running" if in_flight else "stopped")


def test_status_without_a_store_says_how_to_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run_command(["status", "--store", str(tmp_path / "none.db")]) == 0
    assert "evalctl run demo" in capsys.readouterr().out
    assert app.run_command(["status", "--json", "--store", str(tmp_path / "none.db")]) == 0
    assert json.loads(capsys.readouterr().out)["sweep"] is None
    assert not (tmp_path / "none.db").exists()


def test_a_named_sweep_that_does_not_exist_is_one_message(evalctl: Callable[..., tuple[int, str, str]]) -> None:
    code, out, err = evalctl("status", "nothing")
    assert (code, out) == (1, "")
    assert err.startswith("evalctl: there is no sweep 'nothing'")


def test_a_file_that_is_no_store_is_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.db").write_text("hello " * 1000)
    for words in (["status"], ["show", "last"]):
        assert app.run_command([*words, "--store", str(tmp_path / "x.db")]) == 1
        told = capsys.readouterr()
        assert told.err.startswith("evalctl: ")
        assert told.out == ""


def test_show_builds_the_report_from_the_rows(evalctl: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = evalctl("show", "last")
    assert code == 0
    assert "shapes 1.2.0, sweep" in out
    assert "1/2" in out
    code, out, _ = evalctl("show", "last", "--json")
    assert json.loads(out)["schema"] == "evalctl.report/1"


def test_show_of_a_run_tells_its_ending_verdicts_files_and_transcript(
    evalctl: Callable[..., tuple[int, str, str]],
) -> None:
    code, out, _ = evalctl("show", "last/1")
    assert code == 0
    assert f"{stored.NAME}/1: a, repetition 0: pass" in out
    assert "attempt 1: pass, counts" in out
    assert "file changed: src/add.py (3 bytes)" in out
    assert "tool_started" in out
    assert '{"command": "echo hi"}' in out
    assert "more characters: --full" in out
    assert "be good" not in out
    assert harmless(out)
    assert "owned" not in out
    code, out, _ = evalctl("show", "last/1", "--full")
    assert "x" * 5000 in out
    assert "be good" in out


def test_show_of_a_run_as_json_keeps_the_text_as_it_was(evalctl: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = evalctl("show", "last/4", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["schema"], found["status"], found["attempt"]) == ("evalctl.run/1", "fail", 1)
    assert found["events"][-1]["text"] == EVIL
    assert out.isascii()


def test_show_of_a_run_in_flight_shows_what_has_happened_so_far(evalctl: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = evalctl("show", "last/5")
    assert code == 0
    assert "b, repetition 1: no result yet" in out
    assert "attempt 1: no result yet, does not count" in out
    assert "work_started" in out


@pytest.mark.parametrize(
    ("what", "problem"),
    [
        ("last/x", "'x' is not a position"),
        ("last/", "'' is not a position"),
        ("last/7", "no run at position 7"),
        ("last/99999999999999999999999", "no run at position"),
        ("last/²", "is not a position"),
    ],
)
def test_a_position_that_does_not_exist_is_one_message(
    evalctl: Callable[..., tuple[int, str, str]], what: str, problem: str
) -> None:
    code, out, err = evalctl("show", what)
    assert (code, out) == (1, "")
    assert problem in err


def test_an_attempt_that_does_not_exist_is_one_message(evalctl: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = evalctl("show", "last/1", "--attempt", "2")
    assert code == 1
    assert "no attempt 2" in err


@pytest.mark.parametrize("words", [["status"], ["show", "last"], ["show", "last/1"]])
def test_reading_commands_import_nothing_heavy_and_write_where_letters_are_few(store: Path, words: list[str]) -> None:
    code = (
        "import sys; from orchestrator.cli.app import run_command; code = run_command(sys.argv[1:]); "
        "heavy = {'asyncio', 'httpx', 'rich', 'cattrs', 'structlog', 'aiosqlite', 'anyio'} & set(sys.modules); "
        "sys.stderr.write(repr(sorted(heavy))); sys.exit(code)"
    )
    plain = {"PATH": os.environ["PATH"], "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}  # noqa: TID251
    ended = subprocess.run(
        [sys.executable, "-c", code, "--store", str(store), *words],
        env=plain,
        capture_output=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, b"[]")


def test_values_are_frozen(store: Path) -> None:
    with Reader(store) as reader:
        found = standing_of(reader, reader.find_sweep("last"), now=stored.AT, is_alive=lambda _: True)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        found.remaining = 0  # type: ignore[misc]


@pytest.mark.parametrize("words", [("status",), ("show", "last")])
def test_a_hint_can_be_copied_it_names_the_store_that_was_asked(
    evalctl: Callable[..., tuple[int, str, str]], store: Path, words: tuple[str, ...]
) -> None:
    _, out, _ = evalctl(*words)
    assert f"next: evalctl resume {stored.NAME} --store {store}   runs" in out


def test_a_skipped_run_is_not_shown_off_as_the_first_that_did_not_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "skipped.db"
    stored.write(path, stored.sweep(["a"], 2), {"a": [{}, {"outcome": "skipped", "reason": "budget", "again": True}]})
    app.run_command(["--store", str(path), "show", "last"])
    assert "did not pass" not in capsys.readouterr().out
