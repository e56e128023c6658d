"""What a run counts for: coverage, the rate, and what `resume` does with it; and no run touches another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.conftest import ANSWER, MakeSuite, script, tiny
from tests.peers.driver import Driver, until


def bash(number: int, command: str = "true") -> dict[str, Any]:
    call = {"id": f"c{number}", "name": "bash", "arguments": {"command": command}}
    return {"text": f"Step {number}.", "toolCalls": [call], "usage": {"input": 12, "output": 6}}


BROKEN = {"faults": [{"kind": "model_not_found", "status": 404, "message": "it is gone"}]}
SCRIPTS = {
    "passes": script(ANSWER),
    "fails": script(bash(1, "echo bye > note.txt"), ANSWER),
    "overspends": script({"toolCalls": [bash(n)["toolCalls"][0] for n in range(4)]}),
    "breaks": script(bash(1), bash(2), bash(3), BROKEN),
}
POLICIES = {
    "pass": (1, 0, 1.0),
    "fail": (1, 0, 0.0),
    "budget_exceeded": (1, 0, 0.0),
    "error": (0, 0, None),
    "skipped": (0, 1, None),
}
"""Outcome -> whether it counts for coverage, whether `resume` runs it again, and its score; None is missing, not 0."""
CURRENT = """
SELECT cell.case_id, run.position, outcome, judged, again, composite,
       (SELECT count(*) FROM attempt WHERE attempt.run_id = run.id)
FROM current JOIN run ON run.id = current.run_id JOIN cell ON cell.id = run.cell_id
"""


def test_coverage_rate_and_resume_have_a_policy_each(evalctl: Driver, make_suite: MakeSuite) -> None:
    budget = {"maxTurns": 10, "maxWallMs": 600_000, "maxToolCalls": 3}
    suite = make_suite(dict.fromkeys(SCRIPTS, "Do it."), allow=["process"], scripts=SCRIPTS, budget=budget)
    flags = ("--allow-process", "--k", "2", "--concurrency", "1")
    stopped = evalctl.run(*tiny(suite, *flags, "--max-calls", "11"))
    assert stopped.code == 1
    before = evalctl.query(CURRENT)
    assert {outcome for _, _, outcome, *_ in before} >= {"pass", "error", "skipped"}
    for _, _, outcome, judged, again, composite, _ in before:
        assert (judged, again, composite) == POLICIES[outcome]

    done = evalctl.run("--json", "resume", "last", "--max-calls", "100")
    assert done.code == 1, "errors are left"
    after = evalctl.query(CURRENT)
    assert len(after) == 8
    unfinished = {position for _, position, outcome, *_ in before if outcome == "skipped"}
    assert {position for _, position, *_, attempts in after if attempts > 1} <= unfinished
    expected = {"passes": "pass", "fails": "fail", "overspends": "budget_exceeded", "breaks": "error"}
    for case, _, outcome, judged, again, composite, _ in after:
        assert outcome == expected[case]
        assert (judged, again, composite) == POLICIES[outcome]
    tasks = {task["id"]: task for task in done.json["tasks"]}
    assert [tasks[name]["judged"] for name in SCRIPTS] == [2, 2, 2, 0]
    assert tasks["breaks"].get("passRate") is None, "what is missing is not 0"

    attempts = "SELECT count(*) FROM attempt"
    had = evalctl.number(attempts)
    evalctl.run("resume", "last")
    assert evalctl.number(attempts) == had
    evalctl.run("resume", "last", "--errors")
    assert evalctl.number(attempts) == had + 2


def test_what_a_run_did_before_it_broke_is_kept_and_shown(evalctl: Driver, make_suite: MakeSuite) -> None:
    suite = make_suite({"breaks": "Do it."}, allow=["process"], scripts={"breaks": SCRIPTS["breaks"]})
    assert evalctl.run(*tiny(suite, "--allow-process", "--k", "1")).code == 1
    kinds = "SELECT count(*) FROM event WHERE kind = 'tool_completed'"
    assert evalctl.number(kinds) == 3
    shown = evalctl.run("show", "last/1").stdout
    assert [f"Step {number}." in shown for number in (1, 2, 3)] == [True] * 3
    assert "it is gone" in shown


def test_budgets_and_homes_are_each_runs_own(evalctl: Driver, make_suite: MakeSuite) -> None:
    lock = bash(1, 'mkdir "$HOME/state" && echo mine > got.txt')
    budget = {"maxTurns": 2, "maxWallMs": 600_000, "maxToolCalls": 1, "maxTokens": 36}
    suite = make_suite(
        {"task": "Do it."},
        allow=["process"],
        scripts={"task": script(lock, ANSWER)},
        budget=budget,
        verifiers=[{"kind": "file-contains", "id": "got", "path": "got.txt", "text": "mine"}],
    )
    done = evalctl.run(*tiny(suite, "--allow-process", "--k", "6", "--concurrency", "2"))
    assert done.code == 0, done.stdout
    assert evalctl.query("SELECT outcome, turns, tool_calls FROM outcome") == [("pass", 2, 1)] * 6


def test_a_cancelled_run_whose_verifier_breaks_is_not_tried_again(
    evalctl: Driver, make_suite: MakeSuite, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    waits = f"trap 'exit 3' TERM; echo >> '{begun}'; while :; do sleep 0.05; done"
    check = {"kind": "command", "id": "check", "command": ["sh", "-c", waits], "timeoutMs": 600_000}
    suite = make_suite({"task": "Do it."}, scripts={"task": script(ANSWER)}, verifiers=[check])
    started = evalctl.start(*tiny(suite, "--k", "3", "--concurrency", "1"))
    until(begun.exists, "the verifier to begin")
    assert evalctl.run("cancel", "last").code == 0
    assert started.finish().code == 1
    for more in ((), ("--errors",)):
        evalctl.run("resume", "last", *more)
    assert evalctl.query("SELECT outcome, reason FROM current") == [("skipped", "cancelled")] * 3
    assert evalctl.number("SELECT count(*) FROM unfinished") == 0
    assert begun.read_text(encoding="ascii") == "\n", "the verifier ran once"
    asked = [
        json.loads(payload)["request"] for (payload,) in evalctl.query("SELECT payload FROM event WHERE kind = 'call'")
    ]
    assert asked == [1]
