"""Every published version of a format is read by today's readers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from orchestrator.cli import app
from orchestrator.lab.recordings.cassettes import decode_cassette, encode_cassette
from store.sql.reader import Reader

HERE = Path(__file__).parent


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return Path(shutil.copy(HERE / "store-1.db", tmp_path / "runs.db"))


def test_a_store_of_schema_1_is_read(store: Path) -> None:
    with Reader(store) as reader:
        sweep = reader.find_sweep("last")
        runs = list(reader.iterate_runs(sweep.id))
        assert [run.position for run in runs] == [1, 2, 3, 4, 5, 6]
        for run in runs:
            assert run.attempt_id is not None
            events = list(reader.iterate_events(run.attempt_id))
            assert events[0].kind == "work_started"
            assert any(event.kind == "call" for event in events)


def test_its_report_is_rebuilt_from_its_rows(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run_command(["--store", str(store), "--json", "show", "last"]) == 0
    now = json.loads(capsys.readouterr().out)
    then = json.loads((HERE / "report-1.json").read_text(encoding="utf-8"))
    assert now["runId"] == then["runId"]
    for before, after in zip(then["tasks"], now["tasks"], strict=True):
        assert {name: after[name] for name in before} == before


def test_a_report_of_version_1_can_be_compared(capsys: pytest.CaptureFixture[str]) -> None:
    report = str(HERE / "report-1.json")
    assert app.run_command(["--json", "compare", report, report]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "evalctl.comparison/1"


def test_records_of_runs_of_version_1_have_the_keys_that_readers_use() -> None:
    records = [json.loads(line) for line in (HERE / "runs-1.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(records) == 6
    for record in records:
        assert record["schemaVersion"] == 1
        assert {"runId", "position", "taskId", "repetition", "status", "judged", "verifiers", "measured"} <= set(record)


def test_a_cassette_of_a_lab_of_version_1_is_read_and_written_the_same() -> None:
    file = HERE / "lab-cassette-1.json"
    cassette = decode_cassette(file.read_bytes(), name=file.name)
    assert (cassette.fixture_version, sorted(cassette.answers)) == (2, ["gate", "judge"])
    assert [answer.status for answer in cassette.answers["judge"]] == [503, 200]
    assert encode_cassette(cassette) == file.read_bytes()
