"""An attempt tallies requests by purpose, and its ending is built in one place."""

from typing import Any, cast

import anyio
import attrs
import pytest

from orchestrator.engine.attempt import Attempt
from orchestrator.engine.control.control import Control
from orchestrator.engine.control.waits import Stalled
from orchestrator.engine.ending import AttemptResult
from orchestrator.engine.gate.gate import Gate, GateOfRun
from providers.base import Request
from providers.errors import ProviderError
from providers.usage import Usage
from store.errors import CapExhausted, StoreFailed
from store.events import Incident
from store.measurements import Measurements
from store.rows import Ending
from tests.orchestrator.engine.gate.test_charge import priced
from tests.orchestrator.engine.gate.test_gate import ANSWER, REQUEST, Replies, opened
from tests.orchestrator.engine.plain_ports import PlainLedger, claim

pytestmark = pytest.mark.anyio

PASSED = AttemptResult(outcome="pass", composite=1.0)


def asked_for(purpose: str) -> Request:
    """A request of a purpose, also one that today's parties do not have."""
    return attrs.evolve(REQUEST, **cast("dict[str, Any]", {"purpose": purpose}))


def attempt_through(ask: GateOfRun, gate: Gate) -> Attempt:
    """The attempt whose requests go through *gate*."""
    return Attempt(
        claim=claim(7, number=2),
        requests=ask.requests,
        ledger=gate.ledger,
        control=Control(),
        waits=gate.waits,
        wall=lambda: 0,
    )


def endings_of(gate: Gate) -> list[Ending]:
    """What the plain ledger below *gate* was given."""
    assert isinstance(gate.ledger, PlainLedger)
    return gate.ledger.endings


def ending_of(attempt: Attempt, result: AttemptResult = PASSED, *, judged: bool = True) -> Ending:
    tally = attempt.requests.work
    measured = attempt.take_measurements(Usage(input=3), cost_known=tally.calls > 0 and not tally.unpriced)
    return attempt.build_ending(result, judged=judged, measured=measured, detail={"kind": "own"})


async def test_turns_and_compactions_are_the_work_and_a_judge_is_not() -> None:
    ask, _, gate = priced(Replies([ANSWER, ANSWER, attrs.evolve(ANSWER, model="judge-1")]))
    attempt = attempt_through(ask, gate)
    for purpose in ("turn", "compaction", "judge"):
        await ask(asked_for(purpose))

    ending = ending_of(attempt)

    measured = ending.measured
    assert (measured.calls, measured.cost_nusd, measured.cost_source) == (2, 14_000, "prices")
    assert measured.model_resolved == "m-1"
    assert ending.detail["spent"] == {
        "calls": 3,
        "tokens": 15,
        "unknownUsage": 0,
        "nusd": 21_000,
        "unknownCost": 0,
    }


async def test_a_judge_of_unknown_cost_leaves_the_cost_of_the_work_known() -> None:
    ask, _, gate = priced(Replies([ANSWER]))
    attempt = attempt_through(ask, gate)
    await ask(REQUEST)
    gate.prices, gate.allow_unpriced = {}, True
    await ask(asked_for("judge"))

    ending = ending_of(attempt)

    assert (ending.measured.cost_nusd, ending.detail["spent"]["unknownCost"]) == (7000, 1)


async def test_an_attempt_that_never_began_has_no_times() -> None:
    ask, _, gate = opened(Replies([ANSWER]))
    attempt = attempt_through(ask, gate)
    assert ending_of(attempt).measured == Measurements(calls=0, input_tokens=3)
    with attempt.work_time():
        pass
    ending = ending_of(attempt)
    assert (ending.started_at, ending.measured.wall_ms, ending.measured.waited_ms) == (0, 0, 0)


async def test_incidents_of_the_work_and_of_requests_are_counted_together() -> None:
    ask, log, gate = opened(Replies([attrs.evolve(ANSWER, notes=("usage_unreported",))]))
    attempt = attempt_through(ask, gate)
    await ask(REQUEST)
    await ask(REQUEST)
    attempt.record_event(Incident(name="usage_unreported"))
    attempt.record_event(Incident(name="context_reduced"))

    ending = ending_of(attempt)

    assert list(ending.detail["incidents"].items()) == [("context_reduced", 1), ("usage_unreported", 3)]
    assert log.kinds().count("incident") == 3
    assert list(ending.detail) == ["spent", "incidents", "kind"]


@pytest.mark.parametrize(
    ("error", "outcome", "reason"),
    [
        (CapExhausted(cap="max-calls"), "skipped", "budget"),
        (ProviderError(kind="auth", message="no", retryable=False), "error", "auth"),
        (Stalled("permit", 600.0), "error", "provider"),
    ],
)
async def test_an_error_of_ours_is_recorded_as_a_result(error: Exception, outcome: str, reason: str) -> None:
    ask, _, gate = opened(Replies([ANSWER]))
    attempt = attempt_through(ask, gate)

    async def fail() -> AttemptResult:
        raise error

    await attempt.run_and_record(fail, lambda result: ending_of(attempt, result, judged=False))

    (ending,) = endings_of(gate)
    assert (ending.outcome, ending.reason, ending.again) == (outcome, reason, reason == "budget")
    assert attempt.control.why == ("budget" if reason == "budget" else None)


async def test_a_wait_that_is_given_up_ends_the_attempt_with_its_name() -> None:
    ask, _, gate = opened(Replies([ANSWER]))
    attempt = attempt_through(ask, gate)

    async def wait() -> AttemptResult:
        attempt.requests.stall_scope.give_up(Stalled("permit", 600.0))
        await anyio.sleep_forever()
        return PASSED

    await attempt.run_and_record(wait, lambda result: ending_of(attempt, result, judged=False))
    assert endings_of(gate)[0].reason == "provider"


async def test_a_cancelled_attempt_is_recorded_and_stays_cancelled() -> None:
    ask, _, gate = opened(Replies([ANSWER]))
    attempt = attempt_through(ask, gate)
    with anyio.CancelScope() as scope:
        scope.cancel()

        async def wait() -> AttemptResult:
            await anyio.sleep_forever()
            return PASSED

        await attempt.run_and_record(wait, lambda result: ending_of(attempt, result, judged=False))
    assert scope.cancelled_caught
    assert [(ending.outcome, ending.reason, ending.again) for ending in endings_of(gate)] == [
        ("error", "interrupted", True)
    ]


async def test_nothing_is_recorded_where_the_record_cannot_be_kept() -> None:
    ask, _, gate = opened(Replies([ANSWER]))
    attempt = attempt_through(ask, gate)

    async def lose() -> AttemptResult:
        raise StoreFailed("runs.db", "the disk is full")

    with pytest.raises(StoreFailed):
        await attempt.run_and_record(lose, lambda result: ending_of(attempt, result))
    assert endings_of(gate) == []


async def test_several_gates_of_one_attempt_number_its_requests_together() -> None:
    one, two = Replies([ANSWER]), Replies([ANSWER])
    ask, _, _ = opened(one)
    _, _, other = opened(two)
    await ask(REQUEST)
    await GateOfRun(other, ask.requests)(asked_for("judge"))
    assert [request.key for request in (*one.seen, *two.seen)] == ["sw/7/2/1", "sw/7/2/2"]
    assert ask.requests.tallies["judge"].calls == ask.requests.work.calls == 1
