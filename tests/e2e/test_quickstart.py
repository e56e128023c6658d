"""What a newcomer does first, without keys and without a network."""

import json
from pathlib import Path

from tests.e2e.conftest import SCRIPT, MakeSuite, against, tiny
from tests.peers.driver import Driver, Endpoint, until

DEMO = ("run", "demo", "--allow-write", "--allow-process", "--provider", "scripted")


def reports(evalctl: Driver) -> Path:
    """The folder of the only sweep's report files."""
    [name] = evalctl.sweep_names()
    return evalctl.store.parent / "eval" / name


def test_the_demo_shows_a_solved_a_flaky_and_an_unsolved_task(evalctl: Driver) -> None:
    done = evalctl.run(*DEMO, "--k", "5")
    assert done.code == 0, done.stderr
    for word in ("solved", "flaky", "unsolved"):
        assert word in done.stdout + done.stderr
    report = json.loads((reports(evalctl) / "report.json").read_text(encoding="utf-8"))
    assert report["runId"] == evalctl.sweep_names()[0]
    assert len(report["tasks"]) == 3
    assert len((reports(evalctl) / "runs.jsonl").read_text(encoding="utf-8").splitlines()) == 15
    assert "Measured" in (reports(evalctl) / "report.md").read_text(encoding="utf-8")
    evalctl.assert_sound()


def test_json_puts_records_and_then_the_report_on_stdout_and_nothing_else(evalctl: Driver) -> None:
    done = evalctl.run("--json", *DEMO, "--k", "2")
    assert done.code == 0, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(records) == 7
    assert records[-1]["runId"] == evalctl.sweep_names()[0]


def test_json_tells_each_run_as_soon_as_it_is_durable(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    endpoint.plan({"match": "Hold", "do": {"hold": 0}})
    suite = make_suite({"quick": "Say that it is done.", "slow": "Hold this."})
    started = evalctl.start("--json", *tiny(suite, "--k", "1", *against(endpoint)))
    until(lambda: "quick" in started.stdout.read_text(encoding="utf-8"), "the record of the quick run")
    endpoint.release()
    records = [json.loads(line) for line in started.finish().stdout.splitlines()]
    assert [record.get("taskId") for record in records] == ["quick", "slow", None]


def test_log_lines_are_for_those_who_ask_and_go_to_stderr(evalctl: Driver) -> None:
    done = evalctl.run("-v", "--log-format", "json", *DEMO, "--k", "1")
    logged = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    assert [line["event"] for line in logged] == ["sweep.joined", *["run.ended"] * 3, "sweep.left"]
    assert "run.ended" not in evalctl.run(*DEMO, "--k", "1").stderr


def test_out_takes_the_report_files_directly(evalctl: Driver, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert evalctl.run(*DEMO, "--k", "1", "--out", out).code == 0
    assert {file.name for file in out.iterdir()} == {"report.json", "report.md", "runs.jsonl"}


def test_bundled_suites_are_listed_and_pass_the_check(evalctl: Driver) -> None:
    listed = evalctl.run("list")
    assert listed.code == 0
    assert "demo" in listed.stdout
    assert "smoke-coding" in listed.stdout
    assert evalctl.run("check").code == 0


def test_a_stored_sweep_can_be_asked_about_by_prefix_and_as_last(evalctl: Driver) -> None:
    evalctl.run(*DEMO, "--k", "1")
    [name] = evalctl.sweep_names()
    for which in (name, name[:-3], "last"):
        assert evalctl.run("status", which).code == 0
        assert evalctl.run("show", which).code == 0
    transcript = evalctl.run("show", "last/1")
    assert transcript.code == 0
    assert "pass" in transcript.stdout or "fail" in transcript.stdout


def test_before_anything_has_run_status_says_how_to_start(evalctl: Driver) -> None:
    done = evalctl.run("status")
    assert "evalctl run" in done.stdout + done.stderr


def test_the_bundled_smoke_suite_passes_with_its_scripts(evalctl: Driver) -> None:
    done = evalctl.run(
        "--json", "run", "smoke-coding", "--k", "1", "--allow-write", "--allow-process", "--provider", "scripted"
    )
    assert done.code == 0, done.stderr
    assert done.json["summary"]["successRate"] == 1


def test_kept_workspaces_are_there_after_the_run_and_others_are_gone(
    evalctl: Driver, make_suite: MakeSuite, tmp_path: Path
) -> None:
    suite = make_suite({"only": "Say."}, scripts={"only": SCRIPT})
    flags = tiny(suite, "--k", "1")
    assert evalctl.run(*flags).code == 0
    assert list((evalctl.home / "tmp").rglob("note.txt")) == []
    assert evalctl.run(*flags, "--keep").code == 0
    assert len(list((evalctl.home / "tmp").rglob("note.txt"))) == 1
