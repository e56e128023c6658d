"""The run directory of a stored lab sweep: what is in it, byte for byte the same where nothing was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pytest

from orchestrator.cli import app
from orchestrator.kinds import LAB, SUITE, kind_of
from orchestrator.lab.report import json_form
from orchestrator.lab.report.stored import build_stored_report, read_lab_sweep
from orchestrator.lab.report.write import write_run_directory
from store.errors import UsageError
from store.rows import NewSweep
from store.sql.reader import Reader
from tests.orchestrator.lab.report.runs import SKIPPED, broken, said, sweep
from tests.orchestrator.reports import stored

EVIL = "\x1b]0;owned\x07\ud800 <script> |x| [a](http://e.example)"
SECRET = "api_key=9f8e7d6c5b4a39281706f5e4d3c2b1a0"  # known by its name alone, and nobody's
ABSTAINED = said(status="abstain", confidence=None)
DOWN = said("error", status="error", confidence=None, reason="provider", cost_nusd=None)
HOSTILE = said(
    "fail", model_resolved=SECRET, verdicts=(broken(why=f"Never {EVIL}", values={"decision": {"note": SECRET}}),)
)
OUTCOMES = {
    "route/refund:jev": [said(), said("fail")],
    "route/refund:nimble": [said(cost_nusd=0), said(cost_nusd=0, confidence=None)],
    "toolgate/echo:jev": [ABSTAINED, said()],
    "toolgate/echo:nimble": [DOWN, None],
    "toolgate/rm-root:jev": [HOSTILE, HOSTILE],
    "toolgate/rm-root:nimble": [SKIPPED, SKIPPED],
}
RECORDED = {"input_tokens": None, "output_tokens": None, "wall_ms": None, "waited_ms": None, "cost_nusd": None}
OFFLINE = {
    "route/refund:replay": [said(**RECORDED)],
    "toolgate/echo:jev": [said("fail", **RECORDED)],
    "toolgate/rm-root:jev": [SKIPPED],
}


def offline_sweep(name: str = stored.NAME) -> NewSweep:
    planned = sweep(targets=("replay", "jev"), k=1, mode="offline", name=name)
    kept = [index for index, cell in enumerate(planned.cells) if f"{cell.case_id}:{cell.variant}" in OFFLINE]
    return attrs.evolve(planned, runs=tuple(run for run in planned.runs if run.cell in kept))


@pytest.fixture
def live(tmp_path: Path) -> Path:
    return stored.write(tmp_path / "runs.db", sweep(), OUTCOMES)


@pytest.fixture
def offline(tmp_path: Path) -> Path:
    return stored.write(tmp_path / "offline.db", offline_sweep(), OFFLINE)


def files(path: Path, directory: Path, name: str = "last") -> dict[str, str]:
    with Reader(path) as reader:
        write_run_directory(reader, reader.find_sweep(name), directory)
    return {file.name: file.read_text(encoding="utf-8") for file in directory.iterdir()}


def test_a_run_is_read_back_as_it_ended(live: Path) -> None:
    with Reader(live) as reader:
        row = reader.find_sweep("last")
        assert kind_of(row) is LAB
        found = read_lab_sweep(reader, row)
    runs = {(run.case, run.target, run.repetition): run for run in found.runs}
    assert len(runs) == 12
    jev = runs["route/refund", "jev", 0]
    assert (jev.capability, jev.case_name, jev.version, jev.decision_status) == ("route", "refund", "1", "ok")
    assert (jev.decision, jev.confidence, jev.asked, jev.local) == ({"verdict": "deny"}, 0.9, True, False)
    assert (jev.wall_ms, jev.cost_nusd, jev.judged) == (1000, 2_000_000, True)
    assert runs["route/refund", "nimble", 0].local
    assert runs["toolgate/echo", "jev", 0].abstain == "too close to call"
    down = runs["toolgate/echo", "nimble", 0]
    assert (down.outcome, down.error["cause"], down.cost_nusd) == ("error", "provider", None)
    assert runs["toolgate/echo", "nimble", 1].outcome is None
    skipped = runs["toolgate/rm-root", "nimble", 0]
    assert (skipped.judged, skipped.asked, skipped.decision_status) == (False, False, None)
    assert skipped.message == "fixture version 1 recorded, now 2"
    assert [target.id for target in found.facts.targets] == ["jev", "nimble"]


def test_a_sweep_of_an_agent_is_no_lab(tmp_path: Path) -> None:
    path = stored.write(tmp_path / "agent.db", stored.sweep(["a"], 1), {"a": [{}]})
    with Reader(path) as reader:
        assert kind_of(reader.find_sweep("last")) is SUITE


def test_the_report_of_one_target_is_about_its_runs_alone(live: Path) -> None:
    with Reader(live) as reader:
        report = build_stored_report(reader, reader.find_sweep("last"), variant="nimble")
    assert {row.target for one in report.capabilities for row in one.rows} == {"nimble"}
    assert report.planned == 6
    assert report.comparisons == ()
    assert report.facts.spent.calls == 3


def test_results_are_sorted_by_fixture_target_and_repetition(live: Path, tmp_path: Path) -> None:
    found = files(live, tmp_path / "out")
    records = [json.loads(line) for line in found["results.jsonl"].splitlines()]
    places = [(one["capability"], one["fixture"], one["target"], one["repetition"]) for one in records]
    assert places == sorted(places)
    assert len(places) == 11
    first = records[0]
    assert (first["status"], first["decision"], first["confidence"]) == ("ok", {"verdict": "deny"}, 0.9)
    assert first["measured"] == {"wallMs": 1000, "waitedMs": 5, "calls": 1, "costNusd": 2_000_000}
    assert first["broken"] == []
    assert records[1]["broken"][0]["assertion"] == "expect[0]"
    assert records[1]["broken"][0]["values"]["decision"] == {"verdict": "allow"}
    assert records[-1]["reason"] == "stale"
    assert "measured" not in records[-1]


def test_only_the_manifest_holds_ids_and_times(live: Path, tmp_path: Path) -> None:
    found = files(live, tmp_path / "out")
    assert sorted(found) == ["manifest.json", "report.md", "results.jsonl"]
    for name in ("report.md", "results.jsonl"):
        assert stored.NAME not in found[name]
        assert "2020-01-01" not in found[name]
    manifest = json.loads(found["manifest.json"])
    assert (manifest["runId"], manifest["schema"]) == (stored.NAME, "evalctl.lab-run/1")
    assert manifest["plannedAt"] == "2020-01-01T00:00:00.000Z"
    assert len(manifest["runs"]) == 12
    assert manifest["content"] == {"lab.yaml": "0" * 64}
    assert "/home/me" not in found["manifest.json"]
    assert "hunter2" not in found["manifest.json"]


def test_offline_the_same_results_give_the_same_bytes_whatever_the_sweep_is_called(
    offline: Path, tmp_path: Path
) -> None:
    again = stored.write(tmp_path / "again.db", offline_sweep("20210101T000000Z-0000000b"), OFFLINE)
    first, second = files(offline, tmp_path / "one"), files(again, tmp_path / "two")
    for name in ("report.md", "results.jsonl"):
        assert first[name] == second[name]
    assert "measured" not in first["results.jsonl"]
    assert "ledger" not in first["report.md"]
    assert first["manifest.json"] != second["manifest.json"]


def test_what_models_said_is_text_in_the_report_and_holds_no_secret(live: Path, tmp_path: Path) -> None:
    found = files(live, tmp_path / "out")
    for name, content in found.items():
        assert SECRET not in content, name
        assert "\x1b" not in content
    assert "<script>" not in found["report.md"]
    assert "Never" in found["report.md"]
    assert "look like credentials were replaced" in found["report.md"]


def test_a_value_that_its_name_tells_to_be_a_secret_is_in_no_file_and_on_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = said("fail", verdicts=(broken(values={"decision": {"api_key": "9f8e7d6c5b4a39281706f5e4d3c2b1a0"}}),))
    named["detail"]["decision"]["decision"] = {"api_key": "9f8e7d6c5b4a39281706f5e4d3c2b1a0"}
    path = stored.write(tmp_path / "runs.db", sweep(("gate/one",), ("jev",), 1), {"gate/one": [named]})

    written = files(path, tmp_path / "out")
    for words in (["show", "last"], ["show", "last", "--json"], ["show", "last/1"]):
        assert app.run_command([*words, "--store", str(path)]) == 0
    told = capsys.readouterr().out

    for text in (*written.values(), told):
        assert "9f8e7d6c" not in text
    assert "redacted" in written["report.md"]
    assert "redacted" in told


def test_a_hash_beside_a_telling_name_is_no_secret(tmp_path: Path) -> None:
    planned = sweep(("gate/api-key",), ("jev",), 1)
    content = {"fixtures/gate/api-key.yaml": "9f8e7d6c5b4a39281706f5e4d3c2b1a0" * 2, "password": "0123456789abcdef" * 4}
    suite = {**planned.conditions["suite"], "content": content}
    planned = attrs.evolve(planned, conditions={**planned.conditions, "suite": suite})
    path = stored.write(tmp_path / "runs.db", planned, {"gate/api-key": [said()]})

    assert json.loads(files(path, tmp_path / "out")["manifest.json"])["content"] == content


def test_the_files_take_the_place_of_those_before(live: Path, tmp_path: Path) -> None:
    directory = tmp_path / "out"
    directory.mkdir()
    (directory / "report.md").write_text("old")
    assert "old" not in files(live, directory)["report.md"].split()
    assert sorted(file.name for file in directory.iterdir()) == ["manifest.json", "report.md", "results.jsonl"]


def test_a_directory_that_cannot_be_made_is_one_message_that_says_where_the_results_are(
    live: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"cannot be written: .*\n.*evalctl show 2020"):
        files(live, tmp_path / "file" / "out")


FORMATS = Path(__file__).parents[3] / "formats"


def holds(now: Any, then: Any) -> bool:
    """Everything that was there is there, as it was; there may be more."""
    if isinstance(then, dict):
        return all(name in now and holds(now[name], value) for name, value in then.items())
    if isinstance(then, list):
        return len(now) == len(then) and all(map(holds, now, then))
    return now == then


def test_a_reader_of_version_1_finds_what_it_knows(live: Path, tmp_path: Path) -> None:
    found = files(live, tmp_path / "out")
    with Reader(live) as reader:
        report = json_form.report_to_json(build_stored_report(reader, reader.find_sweep("last")))
    then = {name: (FORMATS / name).read_text(encoding="utf-8") for name in ("lab-report-1.json", "lab-run-1.json")}
    sample = json.loads(then["lab-report-1.json"])
    del sample["notes"], sample["limits"]  # words for people may change
    assert holds(report, sample)
    assert holds(json.loads(found["manifest.json"]), json.loads(then["lab-run-1.json"]))
    lines = (FORMATS / "lab-results-1.jsonl").read_text(encoding="utf-8").splitlines()
    for now, before in zip(found["results.jsonl"].splitlines(), lines, strict=True):
        assert holds(json.loads(now), json.loads(before))
