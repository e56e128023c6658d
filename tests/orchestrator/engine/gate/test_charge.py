"""What requests are charged, and where each figure of it goes."""

from __future__ import annotations

from typing import Any

import anyio
import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.engine.gate.charge import Charge, bound_of, charge_of
from orchestrator.engine.gate.gate import FALLBACK_OUTPUT_TOKENS, Gate, GateOfRun, UnknownPrice
from providers.base import Answer, Provider
from providers.errors import ProviderError
from providers.prices.price import Price
from providers.usage import Usage
from store.rows import Amount, Caps
from tests.orchestrator.engine.gate.test_gate import ANSWER, REQUEST, Replies, opened
from tests.orchestrator.engine.plain_ports import PlainBudget, PlainLog

PRICE = Price(input=1_000_000_000, output=2_000_000_000, cached=100_000_000, cache_write=1_250_000_000)
"""1, 2, 0.1 and 1.25 USD per million tokens: 1000, 2000, 100 and 1250 nano-USD a token."""
BOUND = bound_of(100, 10, PRICE)


def failed(**facts: Any) -> ProviderError:
    return ProviderError(kind="server_error", message="no", retryable=False, **facts)


def charged(
    reply: Answer | ProviderError | None, price: Price | None = PRICE, *, bound: Amount = BOUND, limited: bool = True
) -> Charge:
    return charge_of(reply, bound, price, limited=limited)


def test_a_bound_is_every_byte_at_the_dearest_input_and_the_whole_output_limit() -> None:
    assert Amount(calls=1, tokens=110, nusd=100 * 1250 + 10 * 2000) == BOUND
    assert bound_of(1, 0, Price(input=1, output=0)).nusd == 1


def test_reported_usage_is_charged_at_its_price() -> None:
    charge = charged(Answer(usage=Usage(input=10, output=5, cached=4)))
    assert charge.amount == Amount(calls=1, tokens=15, nusd=6 * 1000 + 4 * 100 + 5 * 2000)
    assert (charge.cost_nusd, charge.source, charge.unknown) == (16_400, "prices", False)


@pytest.mark.parametrize("reply", [None, Answer(), Answer(usage=Usage(input=5)), failed(), failed(status=500)])
def test_unknown_usage_is_charged_its_bound_and_says_so(reply: Answer | ProviderError | None) -> None:
    charge = charged(reply)
    assert charge.amount == BOUND
    assert (charge.cost_nusd, charge.source, charge.unknown) == (BOUND.nusd, "bound", True)


def test_what_was_turned_away_costs_its_call_alone() -> None:
    charge = charged(failed(status=429, turned_away=True))
    assert charge.amount == Amount(calls=1)
    assert (charge.cost_nusd, charge.source, charge.unknown) == (0, "prices", False)


def test_a_failure_that_reports_usage_is_charged_for_it() -> None:
    assert charged(failed(mid_stream=True, usage=Usage(input=118, output=1))).cost_nusd == 120_000


def test_without_a_price_a_cost_is_unknown_and_not_zero() -> None:
    charge = charged(Answer(usage=Usage(input=10, output=5)), None, bound=bound_of(100, 10, None))
    assert (charge.cost_nusd, charge.source, charge.amount) == (None, None, Amount(calls=1, tokens=15))


def test_a_price_of_zero_is_a_cost_of_zero() -> None:
    charge = charged(Answer(usage=Usage(input=10, output=5)), Price(input=0, output=0))
    assert (charge.cost_nusd, charge.source) == (0, "prices")


def test_unknown_usage_without_an_output_limit_has_no_bound_and_so_no_cost() -> None:
    assert charged(Answer(), limited=False).cost_nusd is None


def test_the_providers_own_cost_beats_the_prices_and_is_not_added_to_them() -> None:
    charge = charged(Answer(usage=Usage(input=10, output=5), cost_nusd=7))
    assert (charge.cost_nusd, charge.source, charge.amount.nusd) == (7, "reported", 7)


@pytest.mark.parametrize("cost", [-1, 10**16, True])
def test_a_cost_that_cannot_be_true_counts_as_not_reported(cost: bool | int) -> None:
    charge = charged(Answer(usage=Usage(input=10, output=5), cost_nusd=cost))
    assert (charge.source, charge.implausible) == ("prices", True)


@pytest.mark.parametrize(
    "reply", [Answer(usage=Usage(input=111, output=0)), Answer(usage=Usage(input=1, output=1), cost_nusd=10**9)]
)
def test_more_than_was_allowed_is_told(reply: Answer) -> None:
    assert charged(reply).above_bound
    assert not charged(Answer(usage=Usage(input=100, output=10, cache_write=100))).above_bound


tokens = st.integers(0, 10**6)
rates = st.integers(0, 10**12)
optional = st.none() | rates


@given(
    st.builds(Price, input=rates, output=rates, cached=optional, cache_write=optional, cache_write_1h=optional),
    st.builds(Usage, input=tokens, output=tokens, cached=st.none() | tokens, cache_write=st.none() | tokens),
    tokens,
    tokens,
)
def test_usage_within_its_bound_never_costs_more_than_was_reserved(
    price: Price, usage: Usage, more_in: int, more_out: int
) -> None:
    bound = bound_of(usage.input + more_in, usage.output + more_out, price)
    charge = charge_of(Answer(usage=usage), bound, price, limited=True)
    assert charge.amount.nusd <= bound.nusd
    assert charge.amount.tokens <= bound.tokens
    assert not charge.above_bound


# --- at the gate ------------------------------------------------------------------------------------------------


def priced(provider: Provider, **more: Any) -> tuple[GateOfRun, PlainLog, Gate]:
    ask, log, gate = opened(provider, caps=Caps(nusd=10**12), **more)
    gate.prices = {"m": PRICE}
    return ask, log, gate


@pytest.mark.anyio
async def test_the_gate_reserves_the_bound_settles_the_cost_and_records_it() -> None:
    budget = PlainBudget()
    ask, log, _ = priced(Replies([ANSWER]), budget=budget)
    await ask(REQUEST)
    assert budget.reserved == [BOUND]
    assert budget.spent == [Amount(calls=1, tokens=5, nusd=7000)]
    call = log.events[-1]
    assert (call.tokens, call.cost_nusd, call.cost_source) == (5, 7000, "prices")
    assert (ask.requests.work.nusd, ask.requests.work.unpriced) == (7000, 0)


@pytest.mark.anyio
async def test_a_request_that_is_cut_off_is_recorded_with_its_bound() -> None:
    ask, log, _ = priced(Replies([60.0]))
    with anyio.move_on_after(0.05):
        await ask(REQUEST)
    call = log.events[-1]
    assert (call.error, call.tokens, call.cost_nusd, call.cost_source) == ("cancelled", 110, BOUND.nusd, "bound")


@pytest.mark.anyio
async def test_under_a_cap_in_usd_every_request_gets_an_output_limit() -> None:
    provider = Replies([ANSWER])
    ask, _, _ = priced(provider)
    await ask(attrs.evolve(REQUEST, max_output_tokens=None))
    assert provider.seen[0].max_output_tokens == FALLBACK_OUTPUT_TOKENS


@pytest.mark.anyio
async def test_under_a_cap_in_usd_a_model_without_a_price_is_never_asked() -> None:
    provider = Replies([ANSWER])
    ask, _, _ = priced(provider)
    with pytest.raises(UnknownPrice, match="'other'"):
        await ask(attrs.evolve(REQUEST, model="other"))
    assert provider.seen == []


@pytest.mark.anyio
async def test_usage_above_the_bound_is_an_incident_and_charged_in_full() -> None:
    budget = PlainBudget()
    ask, log, _ = priced(Replies([attrs.evolve(ANSWER, usage=Usage(input=1000, output=10))]), budget=budget)
    await ask(REQUEST)
    assert ask.requests.incidents == {"usage_above_bound": 1}
    assert budget.spent == [Amount(calls=1, tokens=1010, nusd=1_020_000)]
    assert "incident" in log.kinds()


@pytest.mark.anyio
async def test_a_request_without_a_price_is_asked_once_and_its_cost_is_unknown() -> None:
    provider = Replies([ANSWER])
    ask, log, _ = opened(provider)
    await ask(REQUEST)
    assert len(provider.seen) == 1
    assert log.events[-1].cost_nusd is None
    assert (ask.requests.work.nusd, ask.requests.work.unpriced) == (0, 1)
