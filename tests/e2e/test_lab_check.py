"""`lab check` as a user meets it."""

import json
import shutil
from pathlib import Path

import pytest

from orchestrator.lab.catalog import BUNDLED_LAB
from tests.orchestrator.lab.formats.labs import CONFIG, FIXTURE, changed, write_lab
from tests.peers.driver import Driver


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    return write_lab(tmp_path / "lab", config=changed(CONFIG, "[python3, gate.py]", "[sh, gate.sh]"))


def test_the_bundled_lab_is_sound_without_a_path_or_a_key(evalctl: Driver) -> None:
    evalctl.environment["PATH"] = "/nowhere"
    done = evalctl.run("lab", "check")
    assert done.code == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr.rstrip().endswith("fixtures, 2 targets: no findings")


def test_a_lab_in_the_project_is_the_one_that_is_checked(evalctl: Driver, lab: Path) -> None:
    shutil.copytree(lab, evalctl.home / "config" / "lab")
    done = evalctl.run("lab", "check")
    assert (done.code, done.stdout, done.stderr) == (0, "", "1 capability, 1 fixture, 2 targets: no findings\n")


def test_findings_are_data_and_their_number_is_told(evalctl: Driver, lab: Path) -> None:
    (lab / "fixtures/toolgate/rm-root.yaml").write_text(changed(FIXTURE, "status !=", "statsu !="), encoding="utf-8")
    (lab / "config.yaml").write_text(CONFIG.replace("[python3,", "[no-such-program,"), encoding="utf-8")
    done = evalctl.run("lab", "check", "--lab-dir", lab)
    assert done.code == 1
    assert done.stdout.splitlines() == [
        (
            f"{lab}/config.yaml:20:43: capabilities.toolgate.flow[2].command[0]: there is no program 'no-such-program' "
            "on the PATH"
        ),
        (
            f"{lab}/fixtures/toolgate/rm-root.yaml:9:11: expect[0].cel: undeclared reference to 'statsu' (did you mean "
            "'status'? There are: status, decision, abstain, error, trace)"
        ),
        "  statsu != 'error'",
        "  ^",
    ]
    assert done.stderr == f"evalctl: 2 findings in {lab}\n"


def test_stale_cassettes_are_warned_of_and_leave_the_exit_code_alone(evalctl: Driver, tmp_path: Path) -> None:
    root = shutil.copytree(BUNDLED_LAB, tmp_path / "copy")
    fixture = next(
        path
        for path in sorted(root.glob("fixtures/*/*.yaml"))
        if (root / "cassettes" / path.parent.name / path.stem).is_dir()
    )
    fixture.write_text(fixture.read_text(encoding="utf-8").replace("version: 1\n", "version: 7\n"), encoding="utf-8")
    done = evalctl.run("lab", "check", "--lab-dir", root)
    assert (done.code, done.stdout) == (0, "")
    assert f"/cassettes/{fixture.parent.name}/{fixture.stem}/" in done.stderr
    assert "stale, so it is not played: fixture version 1 recorded, now 7" in done.stderr


def test_json_is_one_document_whatever_is_found(evalctl: Driver, lab: Path) -> None:
    done = evalctl.run("lab", "check", "toolgate", "--target", "a", "--lab-dir", lab, "--json")
    assert done.code == 0
    assert json.loads(done.stdout) == {
        "schema": "evalctl.lab-check/1",
        "directory": str(lab),
        "config": f"{lab}/config.yaml",
        "bundled": False,
        "broken": False,
        "findings": [],
        "warnings": [],
        "id": "small",
        "version": "1.10",
        "capabilities": ["toolgate"],
        "fixtures": ["toolgate/rm-root"],
        "targets": ["a"],
    }
    (lab / "lab.yaml").write_text("repeat: 0", encoding="utf-8")
    done = evalctl.run("lab", "check", "--lab-dir", lab, "--json")
    assert done.code == 1
    assert json.loads(done.stdout)["findings"] == [f"{lab}/lab.yaml:1:1: repeat: expected 1 to 1000, got 0"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tolgate"], "evalctl: CAPABILITY: the lab has no capability 'tolgate' (did you mean 'toolgate'?)"),
        (["--fixture", "rm-rot"], "evalctl: --fixture: the lab has no fixture 'rm-rot' (did you mean 'rm-root'?)"),
        (["--target", "c"], "evalctl: --target: the lab has no target 'c'"),
        (["--config", "no.yaml"], "evalctl: --config no.yaml: no such file"),
    ],
)
def test_what_is_not_there_is_told_with_the_nearest_name(
    evalctl: Driver, lab: Path, arguments: list[str], message: str
) -> None:
    done = evalctl.run("lab", "check", "--lab-dir", lab, *arguments)
    assert (done.code, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0] == message


def test_the_help_tells_the_exit_codes_and_the_verbs(evalctl: Driver) -> None:
    assert "Exit codes: 0 done; 1 usage or infrastructure error" in evalctl.run("lab", "check", "--help").stdout
    assert "check" in evalctl.run("lab", "--help").stdout
