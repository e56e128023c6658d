import json
from typing import Any

import pytest

from providers.decisions.cel import CelCompileError
from providers.decisions.decision import Decision, Failure, Step
from store.rows import Verdict
from verifiers.assertion import Assertion
from verifiers.registry import KINDS

DENIED = Decision(
    status="ok",
    decision={"verdict": "deny", "reason": "destructive"},
    trace=(Step(node="gate", source="exec", outcome="decided"),),
).to_json()


def judged(cel: str, values: dict[str, Any] = DENIED) -> Verdict:
    return Assertion(id="expect[0]", cel=cel, why="Deleting the root is never allowed").judge_decision(values)


def test_what_is_true_passes() -> None:
    judgement = judged("status == 'ok' && decision.verdict != 'allow'")

    assert (judgement.verifier, judgement.kind, judgement.verdict) == ("expect[0]", "cel", "pass")
    assert judgement.detail == {
        "why": "Deleting the root is never allowed",
        "cel": "status == 'ok' && decision.verdict != 'allow'",
    }


def test_what_is_false_fails_with_the_values_that_made_it_so() -> None:
    judgement = judged("status == 'abstain' || decision.verdict == 'allow'")

    assert judgement.verdict == "fail"
    assert judgement.detail == {
        "why": "Deleting the root is never allowed",
        "cel": "status == 'abstain' || decision.verdict == 'allow'",
        "values": {"status": "ok", "decision": {"verdict": "deny", "reason": "destructive"}},
    }


@pytest.mark.parametrize(
    ("cel", "reason"),
    [
        ("decision.verdct == 'deny'", 'Key not found in map : "verdct"'),
        ("decision.verdict", 'expected true or false, got of type string: "deny"'),
        ("error.cause == 'timeout'", "Applying SELECT to non-message type"),
        ("trace[3].node == 'gate'", "Index error: index=3 size=1"),
    ],
)
def test_what_is_neither_fails_with_its_reason(cel: str, reason: str) -> None:
    judgement = judged(cel)

    assert (judgement.verdict, judgement.detail["reason"]) == ("fail", reason)


@pytest.mark.parametrize(
    ("decision", "cel"),
    [
        (Decision(status="abstain", abstain="not sure"), "status == 'abstain' && abstain == 'not sure'"),
        (Decision(status="abstain", abstain="not sure"), "decision == null && error == null"),
        (
            Decision(status="error", error=Failure(cause="timeout", message="late", node="gate")),
            "status == 'error' && error.cause == 'timeout' && error.node == 'gate'",
        ),
        (Decision(status="ok", decision=False), "decision == false"),
        (Decision(status="ok", decision=0.25), "decision < 0.5"),
    ],
)
def test_every_ending_can_be_asserted(decision: Decision, cel: str) -> None:
    assert judged(cel, decision.to_json()).verdict == "pass"


def test_a_mistake_in_an_expression_is_told_when_it_is_made() -> None:
    with pytest.raises(CelCompileError, match="did you mean 'decision'"):
        judged("decison.verdict == 'deny'")


def test_values_that_are_kept_are_short_whatever_was_answered() -> None:
    huge = {f"key{number}" * 100: ["x" * 1000] * 50 for number in range(50)}
    deep: dict[str, Any] = {"a": huge}
    for _ in range(100):
        deep = {"a": [deep]}

    for decision in (huge, deep, "x" * 1_000_000, [[1] * 300] * 300):
        detail = judged("decision == 1", {**DENIED, "decision": decision}).detail
        assert len(json.dumps(detail)) < 20_000
        assert set(detail["values"]) == {"decision"}
    assert judged("decision == 1", {**DENIED, "decision": "x" * 300}).detail["values"] == {"decision": "x" * 199 + "…"}
    listed = judged("decision == 1", {**DENIED, "decision": list(range(30))}).detail["values"]["decision"]
    assert listed == [*range(20), "… 10 more"]


def test_values_that_are_no_json_fail_and_are_kept_as_what_can_be_written() -> None:
    judgement = judged("decision == 1", {**DENIED, "decision": {"n": 10**5000}})

    assert judgement.detail["reason"] == "decision holds an integer of more than 64 bits"
    assert json.dumps(judgement.detail)


def test_no_suite_can_ask_for_it() -> None:
    assert "cel" not in KINDS
