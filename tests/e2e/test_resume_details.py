"""What `resume` remembers and clears away."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.conftest import SCRIPT, MakeSuite, against, numbered, tiny
from tests.peers.driver import Driver, Endpoint, until


def scratches(evalctl: Driver) -> list[Path]:
    return list(Path(evalctl.environment["TMPDIR"]).glob("evalctl-*"))


def test_workspaces_of_a_killed_process_are_removed_by_resume(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    endpoint.plan({"match": "Hold", "do": {"hold": 0}})
    started = evalctl.start(*tiny(make_suite({"a": "Hold this."}), "--k", "2", *against(endpoint)))
    until(lambda: endpoint.counts()["requests"] >= 1, "the first request")
    started.kill()
    assert len(scratches(evalctl)) == 1
    endpoint.plan()
    resumed = evalctl.run("resume", "last")
    assert resumed.code == 0, resumed.stderr
    assert scratches(evalctl) == []


def test_a_raised_cap_is_kept_with_who_raised_it_and_holds_from_then_on(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    suite = make_suite(numbered(1))
    assert evalctl.run(*tiny(suite, "--k", "9", "--max-calls", "2", *against(endpoint))).code == 1
    assert evalctl.run("resume", "last", "--max-calls", "5").code == 1
    assert evalctl.run("resume", "last").code == 1
    assert endpoint.counts()["requests"] == 5
    status = json.loads(evalctl.run("--json", "status").stdout)
    assert status["caps"]["calls"] == 5
    [(verb, who)] = evalctl.query("SELECT verb, who FROM control")
    assert verb == "raise_cap"
    assert "@" in who


def test_a_changed_suite_is_refused_naming_the_file(evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite) -> None:
    suite = make_suite(numbered(1))
    assert evalctl.run(*tiny(suite, "--k", "9", "--max-calls", "2", *against(endpoint))).code == 1
    (suite / "fixtures" / "note" / "note.txt").write_text("changed\n", encoding="ascii")
    refused = evalctl.run("resume", "last", "--max-calls", "20")
    assert refused.code == 1
    assert "fixtures/note/note.txt" in refused.stderr
    assert endpoint.counts()["requests"] == 2


def test_content_that_changed_under_the_same_version_is_warned_about(evalctl: Driver, make_suite: MakeSuite) -> None:
    suite = make_suite(numbered(2), scripts={"task-0": SCRIPT, "task-1": SCRIPT})
    assert "warning: task-" not in evalctl.run(*tiny(suite, "--k", "1")).stderr
    (suite / "fixtures" / "note" / "note.txt").write_text("hello again\n", encoding="ascii")
    changed = evalctl.run(*tiny(suite, "--k", "1"))
    assert changed.code == 0
    assert "task-0, task-1" in changed.stderr
    assert "suiteVersion" in changed.stderr
    assert "suiteVersion" not in evalctl.run(*tiny(suite, "--k", "1")).stderr


def test_joining_and_stopping_early_leave_notices(evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite) -> None:
    suite = make_suite(numbered(1))
    assert evalctl.run(*tiny(suite, "--k", "9", "--max-calls", "2", *against(endpoint))).code == 1
    notices = evalctl.query("SELECT kind, payload FROM notice ORDER BY id")
    assert [kind for kind, _ in notices] == ["joined", "left"]
    assert json.loads(notices[1][1])["why"] == "budget"
