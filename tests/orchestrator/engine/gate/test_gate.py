import random
from collections.abc import Callable
from typing import Any

import anyio
import attrs
import pytest

from orchestrator.engine.gate.gate import FALLBACK_OUTPUT_TOKENS, Gate, GateOfRun
from orchestrator.engine.gate.governor import Governor
from orchestrator.engine.gate.notices import MAX_WORDINGS, AnswerNotices
from orchestrator.engine.gate.permits import Permits
from orchestrator.engine.gate.requests import AttemptRequests
from orchestrator.engine.gate.retry import RetryPolicy
from orchestrator.engine.gate.stopwatch import Stopwatch
from providers.base import Answer, Origin, Provider, Request, Responded, TextDelta
from providers.errors import ErrorKind, ProviderError
from providers.usage import Usage
from store.errors import CapExhausted
from store.rows import Amount, Caps
from tests.orchestrator.engine.plain_ports import PlainBudget, PlainLedger, PlainLog

pytestmark = pytest.mark.anyio

REQUEST = Request(
    origin=Origin(suite_id="s", case_id="c", repetition=0),
    model="m",
    instructions="",
    messages=(),
    max_output_tokens=10,
)
ANSWER = Answer(text="hi", usage=Usage(input=3, output=2), finish="stop", model="m-1")


@attrs.define
class Replies:
    """A provider that gives the replies it was made with, and keeps the requests."""

    replies: list[Answer | Exception | float]
    seen: list[Request] = attrs.field(factory=list)
    in_flight: int = 0
    peak: int = 0
    name: str = "replies"
    account: str = "replies#1"

    def size(self, request: Request) -> int:
        return 100

    async def answer(self, request: Request, emit: Callable[..., Any]) -> Answer:
        self.seen.append(request)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            await anyio.lowlevel.checkpoint()
            reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
            emit(Responded(status=200, provider_request_id="r-1"))
            if isinstance(reply, float):
                await anyio.sleep(reply)
            if isinstance(reply, Exception):
                raise reply
            assert isinstance(reply, Answer)
            emit(TextDelta(reply.text))
            return reply
        finally:
            self.in_flight -= 1

    async def aclose(self) -> None: ...


def opened(
    provider: Provider,
    *,
    limit: int = 4,
    caps: Caps | None = None,
    budget: PlainBudget | None = None,
    policy: RetryPolicy | None = None,
    slept: list[float] | None = None,
    watch: Stopwatch | None = None,
    tokens: bool = True,
) -> tuple[GateOfRun, PlainLog, Gate]:
    slept = [] if slept is None else slept

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    gate = Gate(
        provider=provider,
        permits=Permits(Governor(cap=limit)),
        allotments=budget or PlainBudget(),
        caps=caps or Caps(),
        counts_tokens=tokens,
        ledger=PlainLedger(),
        policy=policy or RetryPolicy(),
        rng=random.Random(0),
        sleep=sleep,
    )
    requests = requests_of(7, watch)
    log = requests.log
    assert isinstance(log, PlainLog)
    return GateOfRun(gate, requests), log, gate


def requests_of(position: int, watch: Stopwatch | None = None) -> AttemptRequests:
    """No request yet of the second attempt at a run of the sweep `sw`."""
    return AttemptRequests(key=f"sw/{position}/2", position=position, log=PlainLog(), watch=watch or Stopwatch(None))


def broken(
    kind: ErrorKind, *, retryable: bool = True, after: float | None = None, usage: Usage | None = None
) -> ProviderError:
    return ProviderError(kind=kind, message="no", retryable=retryable, retry_after_s=after, usage=usage)


async def test_an_answered_request_leaves_its_events_in_order() -> None:
    ask, log, _ = opened(Replies([ANSWER]))
    assert await ask(REQUEST) == ANSWER
    assert log.kinds() == ["call_sent", "call_responded", "call"]
    assert log.deltas == ["hi"]
    assert log.events[-1].usage == {"input": 3, "output": 2}
    assert log.events[-1].provider_request_id == "r-1"


async def test_the_key_names_sweep_position_attempt_and_request_and_stays_over_retries() -> None:
    provider = Replies([broken("server_error"), ANSWER])
    ask, _, _ = opened(provider)
    await ask(REQUEST)
    await ask(REQUEST)
    assert [r.key for r in provider.seen] == ["sw/7/2/1", "sw/7/2/1", "sw/7/2/2"]
    assert [r.tries for r in provider.seen] == [0, 1, 0]


async def test_a_failed_try_is_recorded_and_charged_like_any_other() -> None:
    budget = PlainBudget()
    ask, log, _ = opened(Replies([broken("server_error", usage=Usage(input=5, output=0)), ANSWER]), budget=budget)
    await ask(REQUEST)
    assert [(e.error, e.retry_in_ms is None) for e in log.events if e.kind == "call"] == [
        ("server_error", False),
        (None, True),
    ]
    assert budget.spent == [Amount(calls=1, tokens=5), Amount(calls=1, tokens=5)]
    assert ask.requests.work.calls == 2


async def test_a_request_that_was_turned_away_costs_its_call_and_no_tokens() -> None:
    budget = PlainBudget()
    refused = attrs.evolve(broken("rate_limit", after=1.0), turned_away=True)
    ask, _, _ = opened(Replies([refused, ANSWER]), budget=budget)
    await ask(REQUEST)
    assert budget.spent == [Amount(calls=1), Amount(calls=1, tokens=5)]
    assert (ask.requests.work.calls, ask.requests.work.tokens, ask.requests.work.unknown) == (2, 5, 0)


@pytest.mark.parametrize("usage", [Usage(input=-100_000, output=5), Usage(input=5, output=10**30)])
async def test_usage_that_cannot_be_true_is_charged_as_unknown(usage: Usage) -> None:
    budget = PlainBudget()
    failure = broken("server_error", usage=usage)
    ask, _, _ = opened(Replies([failure, attrs.evolve(ANSWER, usage=usage)]), budget=budget)
    answer = await ask(REQUEST)
    assert answer.usage is None
    assert ask.requests.incidents == {"usage_implausible": 1}
    assert (ask.requests.work.unknown, ask.requests.work.tokens) == (2, 0)
    assert budget.reserved == budget.spent


async def test_the_bound_is_the_size_and_the_output_limit_and_is_charged_when_usage_is_unknown() -> None:
    budget = PlainBudget()
    ask, _, _ = opened(Replies([attrs.evolve(ANSWER, usage=None)]), budget=budget)
    await ask(REQUEST)
    assert budget.reserved == budget.spent == [Amount(calls=1, tokens=110)]
    assert ask.requests.work.unknown == 1


async def test_under_a_token_cap_every_request_gets_an_output_limit() -> None:
    provider = Replies([ANSWER])
    ask, _, _ = opened(provider, caps=Caps(tokens=10**6))
    await ask(attrs.evolve(REQUEST, max_output_tokens=None))
    assert provider.seen[0].max_output_tokens == FALLBACK_OUTPUT_TOKENS


async def test_what_cannot_be_retried_is_raised_at_once() -> None:
    slept: list[float] = []
    ask, log, _ = opened(Replies([broken("auth", retryable=False)]), slept=slept)
    with pytest.raises(ProviderError):
        await ask(REQUEST)
    assert slept == []
    assert log.events[-1].error == "auth"


async def test_retries_end_after_the_bound() -> None:
    provider = Replies([broken("network")])
    slept: list[float] = []
    ask, _, _ = opened(provider, policy=RetryPolicy(retries=2), slept=slept)
    with pytest.raises(ProviderError):
        await ask(REQUEST)
    assert len(provider.seen) == 3
    assert len(slept) == 2


async def test_no_more_requests_than_permits_are_in_flight() -> None:
    provider = Replies([ANSWER])
    ask, _, _ = opened(provider, limit=3)
    async with anyio.create_task_group() as group:
        for _ in range(40):
            group.start_soon(ask, REQUEST)
    assert provider.peak == 3
    assert len(provider.seen) == 40


async def test_a_spent_budget_gives_the_permit_back() -> None:
    ask, _, gate = opened(Replies([ANSWER]), limit=1, budget=PlainBudget(calls=1))
    await ask(REQUEST)
    with pytest.raises(CapExhausted):
        await ask(REQUEST)
    assert gate.permits.governor.in_flight == 0


async def test_a_cancelled_request_is_charged_its_bound_and_recorded() -> None:
    budget = PlainBudget()
    ask, log, gate = opened(Replies([60.0]), budget=budget)
    with anyio.move_on_after(0.05):
        await ask(REQUEST)
    assert budget.spent == [Amount(calls=1, tokens=110)]
    assert log.events[-1].error == "cancelled"
    assert gate.permits.governor.in_flight == 0


async def test_waiting_for_a_permit_is_not_the_runs_work() -> None:
    provider, watch = Replies([ANSWER]), Stopwatch(None)
    _, _, gate = opened(provider, limit=1)
    requests = requests_of(8, watch)
    ask, log = GateOfRun(gate, requests), requests.log
    held = await gate.permits.take_permit(0)

    async def give_back() -> None:
        await anyio.sleep(0.3)
        gate.permits.give_back(held)

    async with anyio.create_task_group() as group:
        group.start_soon(give_back)
        with watch.run_watch():
            await ask(REQUEST)
    assert watch.waited_s >= 0.29
    assert watch.worked_s < 0.29
    assert isinstance(log, PlainLog)
    assert [e.why for e in log.events if e.kind == "waited"] == ["permit"]


async def test_incidents_of_the_wire_are_counted_and_recorded_once() -> None:
    ask, log, _ = opened(Replies([attrs.evolve(ANSWER, notes=("usage_unreported",))]))
    await ask(REQUEST)
    await ask(REQUEST)
    assert ask.requests.incidents == {"usage_unreported": 2}
    assert log.kinds().count("incident") == 1


async def test_an_answer_that_takes_longer_than_the_request_allows_is_a_timeout() -> None:
    ask, log, _ = opened(Replies([60.0]))
    with pytest.raises(ProviderError, match="no whole answer within 20 ms") as caught:
        await ask(attrs.evolve(REQUEST, timeout_ms=20))
    assert (caught.value.kind, log.kinds().count("call")) == ("timeout", 1)


async def test_one_attempt_goes_through_several_gates_and_is_counted_once() -> None:
    one, two = Replies([ANSWER]), Replies([ANSWER])
    ask, _, _ = opened(one)
    _, _, other = opened(two)
    elsewhere = GateOfRun(other, ask.requests)
    await ask(REQUEST)
    await elsewhere(REQUEST)
    assert [request.key.rpartition("/")[2] for request in (*one.seen, *two.seen)] == ["1", "2"]
    assert ask.requests.work.calls == 2


async def test_who_reads_no_tokens_is_charged_the_call_alone_also_under_caps() -> None:
    budget = PlainBudget()
    told = attrs.evolve(ANSWER, usage=None)
    ask, log, _ = opened(Replies([told]), caps=Caps(calls=9, tokens=9), budget=budget, tokens=False)
    await ask(attrs.evolve(REQUEST, max_output_tokens=None))
    assert budget.reserved == budget.spent == [Amount(calls=1)]
    assert [(event.bytes, event.max_output_tokens) for event in log.events if event.kind == "call_sent"] == [
        (100, None)
    ]


# --- notices ----------------------------------------------------------------------------------------------------


def noticing(gate: Gate) -> list[str]:
    """What the gate shows from now on."""
    shown: list[str] = []
    gate.notices = AnswerNotices(account="a#1", say=shown.append)
    return shown


async def test_unknown_wording_is_shown_whole_and_once_whatever_its_numbers() -> None:
    words = "purse of req_1f3 is empty since 14:05 " * 9
    errors = [attrs.evolve(broken("rate_limit"), wording=words, status=429)]
    errors.append(attrs.evolve(errors[0], wording=words.replace("req_1f3", "req_77b").replace("14:05", "14:06")))
    ask, log, gate = opened(Replies([*errors, ANSWER]))
    shown = noticing(gate)
    await ask(REQUEST)
    assert len(shown) == 1
    assert words in shown[0]
    assert "a#1" in shown[0]
    assert "rate_limit" in shown[0]
    assert "report" in shown[0]
    assert ask.requests.incidents == {"unknown_wording": 2}
    assert [event.detail for event in log.events if event.kind == "incident"] == [{"status": 429, "words": words}]


async def test_no_more_than_a_few_unknown_wordings_are_shown() -> None:
    errors = [attrs.evolve(broken("rate_limit"), wording=f"words {'x' * n}") for n in range(20)]
    ask, _, gate = opened(Replies([*errors, ANSWER]))
    shown = noticing(gate)
    await ask(REQUEST)
    assert len(shown) == MAX_WORDINGS


async def test_unknown_finish_word_is_shown_once() -> None:
    ask, log, gate = opened(Replies([attrs.evolve(ANSWER, finish_raw="novelty", notes=("unknown_finish",))]))
    shown = noticing(gate)
    await ask(REQUEST)
    await ask(REQUEST)
    assert len(shown) == 1
    assert "'novelty'" in shown[0]
    assert [event.detail for event in log.events if event.kind == "incident"] == [{"finish": "novelty"}]


@pytest.mark.parametrize(
    ("caps", "times"), [(Caps(), 0), (Caps(calls=9), 0), (Caps(tokens=10**6), 1), (Caps(nusd=10**12), 1)]
)
async def test_missing_usage_is_said_once_under_a_cap_that_needs_it(caps: Caps, times: int) -> None:
    ask, _, gate = opened(Replies([attrs.evolve(ANSWER, usage=None, notes=("usage_unreported",))]), caps=caps)
    gate.allow_unpriced = True
    shown = noticing(gate)
    await ask(REQUEST)
    await ask(REQUEST)
    assert len(shown) == times
    assert not times or "upper bound" in shown[0]


async def test_answer_that_was_broken_off_is_charged_what_it_used_and_ends_after_two_retries() -> None:
    budget = PlainBudget()
    error = attrs.evolve(broken("server_error", usage=Usage(input=3, output=2)), broken_off=True)
    provider = Replies([error])
    ask, _, _ = opened(provider, budget=budget)
    with pytest.raises(ProviderError):
        await ask(REQUEST)
    assert len(provider.seen) == 3
    assert budget.spent == [Amount(calls=1, tokens=5)] * 3
