"""What `show`, `compare`, `status`, `export` and `verify` say about the sweep of a lab."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from orchestrator.cli import app
from orchestrator.cli.common import Exit
from orchestrator.lab.report.write import write_run_directory
from store.rows import Verdict
from store.sql.reader import Reader
from tests.orchestrator.lab.report.runs import SKIPPED, broken, said, sweep
from tests.orchestrator.lab.report.test_stored import DOWN, EVIL, OFFLINE, OUTCOMES, offline_sweep
from tests.orchestrator.reports import stored

SECOND = "20210101T000000Z-0000000b"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def evalctl(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[int | Exit, str, str]]:
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int | Exit, str, str]:
        code = app.run_command([*words, "--store", str(store)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def harmless(text: str) -> bool:
    return all(letter in "\n\t" or letter.isprintable() for letter in text)


def test_show_of_a_lab_prints_the_labs_report(store: Path, evalctl: Callable[..., tuple[int | Exit, str, str]]) -> None:
    stored.write(store, sweep(), OUTCOMES)

    code, out, _ = evalctl("show", "last")

    assert code == 0
    assert "lab gates 1, sweep" in out
    assert "TARGET" in out
    assert "FAILED toolgate/rm-root, jev: 2 of 2 runs did not pass" in out
    assert f"evalctl resume {stored.NAME}" in out
    assert harmless(out)
    code, out, _ = evalctl("show", "last:nimble", "--json")
    found = json.loads(out)
    assert (found["schema"], found["runId"]) == ("evalctl.lab-report/1", stored.NAME)
    assert {row["target"] for one in found["capabilities"] for row in one["targets"]} == {"nimble"}


def test_show_of_a_target_that_does_not_exist_names_the_others(
    store: Path, evalctl: Callable[..., tuple[int | Exit, str, str]]
) -> None:
    stored.write(store, sweep(), OUTCOMES)

    code, out, err = evalctl("show", "last:nimbel")

    assert (code, out) == (1, "")
    assert f"sweep {stored.NAME} has no target 'nimbel'" in err
    assert "nimble" in err


def test_show_of_a_run_tells_decision_trace_and_assertions(
    store: Path, evalctl: Callable[..., tuple[int | Exit, str, str]]
) -> None:
    evil = said("fail", verdicts=(broken(why=f"Never {EVIL}", reason="no such key: verdict"),))
    evil["detail"]["decision"]["trace"].append(
        {"node": EVIL, "source": "exec", "outcome": "failed", "reason": "exit 3"}
    )
    stored.write(store, sweep(("toolgate/rm-root",), ("jev",), 1), {"toolgate/rm-root": [evil]})

    code, out, _ = evalctl("show", "last/1")

    assert code == 0
    assert "toolgate/rm-root:jev, repetition 0: fail" in out
    assert "decided: ok, confidence 0.9" in out
    assert 'decision: {"verdict": "allow"}' in out
    assert "node root-guard (rule): passed" in out
    assert "node judge (model): decided, 90 ms, confidence 0.9" in out
    assert "(exec): failed, exit 3" in out
    assert "verifier expect[0] (cel): fail" in out
    assert "why: Never" in out
    assert "reason: no such key: verdict" in out
    assert harmless(out)
    assert "owned" not in out
    code, out, _ = evalctl("show", "last/1", "--json")
    found = json.loads(out)
    assert found["decision"]["trace"][0]["node"] == "root-guard"
    assert found["verifiers"][0]["detail"]["reason"] == "no such key: verdict"


@pytest.mark.parametrize(
    "words", [("show", "last", "--runs"), ("status",), ("status", "last/1", "--why"), ("status", "--json")]
)
def test_what_looks_at_any_sweep_looks_at_a_labs(
    store: Path, evalctl: Callable[..., tuple[int | Exit, str, str]], words: tuple[str, ...]
) -> None:
    stored.write(store, sweep(), OUTCOMES)

    code, out, err = evalctl(*words)

    assert code == 0, err
    assert stored.NAME in out or "toolgate/rm-root" in out


@pytest.mark.parametrize(
    "words", [("export", "last", "--out", "bundle.json"), ("export", "last:jev", "--out", "b"), ("verify", "last")]
)
def test_what_is_about_suites_refuses_a_lab(
    store: Path, evalctl: Callable[..., tuple[int | Exit, str, str]], tmp_path: Path, words: tuple[str, ...]
) -> None:
    stored.write(store, sweep(), OUTCOMES)

    code, out, err = evalctl(*words)

    assert (code, out) == (1, "")
    assert f"{stored.NAME} ran a decision lab" in err
    assert not (tmp_path / words[-1]).exists()


PASSED, FAILED = [said()] * 6, [said("fail")] * 6
LIVE = {
    "route/refund:jev": PASSED,
    "route/refund:nimble": FAILED,
    "toolgate/echo:jev": PASSED,
    "toolgate/echo:nimble": PASSED,
    "toolgate/rm-root:jev": PASSED,
    "toolgate/rm-root:nimble": [DOWN, *PASSED[1:]],
}


def test_two_targets_of_a_live_lab_are_compared_by_their_intervals(
    store: Path, evalctl: Callable[..., tuple[int | Exit, str, str]]
) -> None:
    stored.write(store, sweep(k=6), LIVE)

    code, out, _ = evalctl("compare", "last:jev", "last:nimble", "--json")

    assert code == 0
    found = json.loads(out)
    assert {task["id"]: task["verdict"] for task in found["tasks"]} == {
        "route/refund": "regressed",
        "toolgate/echo": "inconclusive",
        "toolgate/rm-root": "not comparable",
    }
    down = found["tasks"][2]["candidate"]
    assert (down["judged"], down["passes"], down["errored"]) == (5, 5, 1)
    assert found["differences"]["backend"] == {"baseline": "typesafe", "candidate": "ollama"}
    assert found["differences"]["model"] == {"baseline": "jev-latest", "candidate": "nimble"}
    assert "compaction" not in found["baseline"]["conditions"]
    assert not any("either may cause a difference" in note for note in found["notes"])
    why = found["tasks"][1]["deltas"]["measured"]["tokensPerRun"]
    assert (why["delta"], why.get("why")) == (0, None)
    code, out, _ = evalctl("compare", "last:jev", "last:nimble", "--detail")
    assert "cases like these" in out


def offline(by: dict[str, Any]) -> dict[str, Any]:
    return {**OFFLINE, **by}


def test_a_lab_offline_has_changed_or_not_and_no_intervals(
    store: Path, evalctl: Callable[..., tuple[int | Exit, str, str]]
) -> None:
    echo, other = said("fail"), said("fail", verdicts=(broken(3),))
    stored.write(store, offline_sweep(), offline({"toolgate/echo:jev": [echo]}))
    stored.write(store, offline_sweep(SECOND), offline({"toolgate/echo:jev": [other]}))

    code, out, _ = evalctl("compare", f"{stored.NAME}:jev", f"{SECOND}:jev", "--json")

    assert code == 0
    found = json.loads(out)
    assert found["replay"] is True
    assert {task["id"]: task["verdict"] for task in found["tasks"]} == {
        "toolgate/echo": "changed",
        "toolgate/rm-root": "not comparable",
    }
    assert [task["baseline"]["wilson"] for task in found["tasks"]] == [None, None]
    assert [task["baseline"]["lowPower"] for task in found["tasks"]] == [False, False]
    assert found["summary"]["verdict"] == "changed"
    code, out, _ = evalctl("compare", f"{stored.NAME}:replay", f"{SECOND}:replay", "--detail")
    assert "OFFLINE: this tests flows" in out
    assert "unchanged" in out
    assert "%, " not in out
    assert "offline: the model's answers come from a recording" in out


def test_a_lab_offline_and_live_are_no_two_measurements_of_one_thing(
    store: Path, evalctl: Callable[..., tuple[int | Exit, str, str]]
) -> None:
    stored.write(store, offline_sweep(), OFFLINE)
    stored.write(store, sweep(("toolgate/echo",), ("jev",), 6, name=SECOND), {"toolgate/echo": PASSED})

    code, out, _ = evalctl("compare", f"{stored.NAME}:jev", f"{SECOND}:jev")

    assert code == 0
    assert "the modes differ: offline, live" in out


def test_a_lab_with_every_fixture_skipped_is_shown(
    store: Path, evalctl: Callable[..., tuple[int | Exit, str, str]]
) -> None:
    stored.write(store, offline_sweep(), {key: [SKIPPED] for key in OFFLINE})

    code, out, _ = evalctl("show", "last")

    assert code == 0
    assert "0 of 0 judged runs passed, 0 did not, 3 skipped" in out
    assert "n/a" in out


def test_a_passed_assertion_is_no_broken_one(store: Path, evalctl: Callable[..., tuple[int | Exit, str, str]]) -> None:
    held = Verdict(verifier="expect[1]", kind="cel", verdict="pass", detail={"why": "Held", "cel": "true"})
    stored.write(store, offline_sweep(), offline({"toolgate/echo:jev": [said("fail", verdicts=(broken(), held))]}))

    _, out, _ = evalctl("show", "last")

    assert "expect[0]" in out
    assert "expect[1]" not in out


def test_a_fixture_in_another_version_is_no_longer_the_same_thing(
    store: Path, evalctl: Callable[..., tuple[int | Exit, str, str]]
) -> None:
    newer = offline_sweep(SECOND)
    cells = tuple(
        attrs.evolve(cell, case_version="2", digest=b"2" + cell.digest[1:]) if cell.case_id == "toolgate/echo" else cell
        for cell in newer.cells
    )
    stored.write(store, offline_sweep(), OFFLINE)
    stored.write(store, attrs.evolve(newer, cells=cells), offline({"toolgate/echo:jev": [said()]}))

    code, out, _ = evalctl("compare", f"{stored.NAME}:jev", f"{SECOND}:jev", "--json")

    assert code == 0
    found = json.loads(out)
    assert [task["id"] for task in found["tasks"]] == ["toolgate/rm-root"]
    assert found["summary"]["otherVersions"] == {"toolgate/echo": ["1", "2"]}
    assert any("toolgate/echo (1 and 2)" in note for note in found["notes"])


def test_the_run_directory_of_a_lab_is_no_report_and_the_message_says_what_to_name(
    store: Path, evalctl: Callable[..., tuple[int | Exit, str, str]], tmp_path: Path
) -> None:
    stored.write(store, sweep(), OUTCOMES)
    with Reader(store) as reader:
        write_run_directory(reader, reader.find_sweep("last"), tmp_path / "runs" / "one")

    code, _, err = evalctl("compare", "runs/one", "last:jev")

    assert code == 1
    assert "compare its targets by its sweep, SWEEP:TARGET" in err
