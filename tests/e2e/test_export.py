"""Sharing a sweep as one file, as a user sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.conftest import SCRIPT, MakeSuite, against, numbered, tiny
from tests.e2e.test_variants import PAIR, asked, compare_file
from tests.peers.driver import Driver, Endpoint

FAKE_KEY = "sk-proj-" + "Zx9Yw8Vu7T" * 5
"""The shape of a key; nobody's."""
CHECK = {
    "kind": "command",
    "id": "check",
    "command": ["python3", "-c", "import os, sys; print(os.getcwd()); sys.exit(1)"],
}


def verified(command: list[str]) -> dict[str, Any]:
    return CHECK | {"command": command}


def test_a_bundle_holds_report_runs_and_markdown_and_no_path(
    evalctl: Driver, make_suite: MakeSuite, tmp_path: Path
) -> None:
    suite = make_suite(numbered(1), scripts={"task-0": SCRIPT}, verifiers=[CHECK])
    assert evalctl.run(*tiny(suite, "--k", "2")).code == 0
    file = tmp_path / "share" / "run.json"
    done = evalctl.run("export", "last", "--out", str(file))
    assert done.code == 0, done.stderr
    text = file.read_text(encoding="ascii")
    found = json.loads(text)
    assert found["schemaVersion"] == 1
    assert found["report"]["summary"]["judged"] == len(found["runs"]) == 2
    assert found["markdown"].startswith("# tiny")
    assert str(tmp_path) not in text
    detail = found["runs"][0]["verifiers"][0]["detail"]
    assert "<" in json.dumps(detail)
    again = evalctl.run("export", "last", "--out", str(file))
    assert again.code == 1
    assert "--force" in again.stderr
    assert evalctl.run("export", "last", "--out", str(file), "--force").code == 0
    assert file.read_text(encoding="ascii") == text


def test_a_planted_key_refuses_the_export_by_its_field(evalctl: Driver, make_suite: MakeSuite, tmp_path: Path) -> None:
    planted = verified(["python3", "-c", f"print({FAKE_KEY!r}); raise SystemExit(1)"])
    suite = make_suite(numbered(1), scripts={"task-0": SCRIPT}, verifiers=[planted])
    assert evalctl.run(*tiny(suite, "--k", "2")).code == 0
    file = tmp_path / "run.json"
    done = evalctl.run("export", "last", "--out", str(file))
    assert done.code == 1
    assert "runs[1].verifiers[0].detail" in done.stderr
    assert FAKE_KEY not in done.stderr
    assert not file.exists()


def test_the_endpoint_is_nowhere_in_a_bundle(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite, tmp_path: Path
) -> None:
    assert evalctl.run(*tiny(make_suite(numbered(1)), "--k", "1", *against(endpoint))).code == 0
    file = tmp_path / "run.json"
    assert evalctl.run("export", "last", "--out", str(file)).code == 0
    text = file.read_text(encoding="ascii")
    assert "127.0.0.1" not in text
    assert json.loads(text)["report"]["conditions"]["endpoint"] == "custom-endpoint"


def test_one_arm_of_several_has_to_be_named(evalctl: Driver, make_suite: MakeSuite, tmp_path: Path) -> None:
    suite = make_suite(numbered(1), scripts={"task-0": SCRIPT})
    assert evalctl.run(*asked(suite, compare_file(tmp_path, PAIR), "--k", "2")).code == 0
    file = tmp_path / "run.json"
    refused = evalctl.run("export", "last", "--out", str(file))
    assert refused.code == 1
    assert ":baseline" in refused.stderr
    assert evalctl.run("export", "last:worse", "--out", str(file)).code == 0
    assert {run["variant"] for run in json.loads(file.read_text())["runs"]} == {"worse"}


def test_an_unknown_sweep_is_told_with_the_nearest(evalctl: Driver, make_suite: MakeSuite, tmp_path: Path) -> None:
    assert evalctl.run(*tiny(make_suite(numbered(1), scripts={"task-0": SCRIPT}), "--k", "1")).code == 0
    done = evalctl.run("export", "2020", "--out", str(tmp_path / "x.json"))
    assert done.code == 1
    assert "Nearest" in done.stderr
