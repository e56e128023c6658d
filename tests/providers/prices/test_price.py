"""Exact decimals: a cost is what a person with a pencil gets."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.endpoints.usage import read_chat_usage, read_messages_usage, read_reported_cost
from providers.prices.price import Cost, Price
from providers.usage import Usage
from store.money import format_nano_usd, parse_usd


def price(**tiers: Any) -> Price:
    return Price(**{name: parse_usd(text) for name, text in tiers.items()})


FULL = price(input="3", output="15", cached="0.30", cache_write="3.75", cache_write_1h="6")


def test_zero_is_a_known_price() -> None:
    free = price(input="0", output="0")
    assert free.compute_cost(Usage(input=1_000_000, output=5)) == Cost(nusd=0, exact=True)
    assert free.compute_bound(10**6, 10**6) == 0


@pytest.mark.parametrize("usage", [Usage(), Usage(input=5), Usage(output=5)])
def test_a_cost_of_unknown_usage_is_unknown(usage: Usage) -> None:
    assert FULL.compute_cost(usage) is None


CACHED_INSIDE = {"prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 900}}
CACHED_BESIDE = {"input_tokens": 100, "output_tokens": 100, "cache_read_input_tokens": 900}


@pytest.mark.parametrize("read", [lambda: read_chat_usage(CACHED_INSIDE), lambda: read_messages_usage(CACHED_BESIDE)])
def test_cached_input_is_charged_once_whichever_way_it_is_reported(read: Callable[..., Any]) -> None:
    usage, _ = read()
    # 100 x 3 + 900 x 0.30 + 100 x 15 USD per million
    assert format_nano_usd(FULL.compute_cost(usage).nusd) == "0.00207"


def test_a_cache_write_is_charged_at_its_price_and_not_on_top() -> None:
    usage, _ = read_messages_usage(
        {"input_tokens": 10, "output_tokens": 0, "cache_creation_input_tokens": 1000, "cache_read_input_tokens": 0}
    )
    assert usage.input == 1010
    # 10 x 3 + 1000 x 3.75
    assert format_nano_usd(FULL.compute_cost(usage).nusd) == "0.00378"


def test_writes_that_are_kept_for_an_hour_have_their_own_price() -> None:
    usage, _ = read_messages_usage(
        {
            "input_tokens": 0,
            "output_tokens": 0,
            "cache_creation_input_tokens": 3000,
            "cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 2000},
        }
    )
    # 1000 x 3.75 + 2000 x 6
    assert format_nano_usd(FULL.compute_cost(usage).nusd) == "0.01575"


def test_without_a_price_for_cached_input_a_cost_is_an_upper_bound_and_says_so() -> None:
    usage = Usage(input=1000, output=100, cached=900)
    plain = price(input="3", output="15")
    assert plain.compute_cost(usage) == Cost(nusd=parse_usd("0.0045"), exact=False)
    assert plain.compute_cost(attrs.evolve(usage, cached=0)).exact
    assert FULL.compute_cost(usage).exact


def test_reasoning_is_part_of_the_output_and_charged_once() -> None:
    assert FULL.compute_cost(Usage(input=0, output=100, reasoning=90)) == FULL.compute_cost(Usage(input=0, output=100))


def test_parts_that_claim_more_than_the_whole_are_charged_as_the_whole() -> None:
    assert FULL.compute_cost(Usage(input=100, output=0, cached=100, cache_write=100)).nusd == parse_usd("0.000375")


@pytest.mark.parametrize(
    ("report", "nusd"),
    [
        ({"cost": 0.0125}, 12_500_000),
        ({"cost": "0.5"}, 500_000_000),
        ({"cost": 0}, 0),
        ({"cost": 1e-12}, 0),
        ({"cost": 0.25, "is_byok": True}, None),
        ({"cost": -1}, None),
        ({"cost": 1e9}, None),
        ({"cost": "much"}, None),
        ({"cost": {"total": 1}}, None),
        ({"cost": True}, None),
        ({}, None),
        (None, None),
    ],
)
def test_what_an_endpoint_says_a_request_cost_is_read_where_it_can_be(
    report: dict[str, Any] | None, nusd: int | None
) -> None:
    assert read_reported_cost(report) == nusd


tokens = st.integers(0, 10**9)
rate = st.integers(0, 10**15)
optional = st.none() | rate
prices = st.builds(Price, input=rate, output=rate, cached=optional, cache_write=optional, cache_write_1h=optional)
parts = st.none() | tokens
usages = st.builds(Usage, input=tokens, output=tokens, cached=parts, cache_write=parts, cache_write_1h=parts)


@given(prices, usages, st.integers(0, 1000), st.integers(0, 1000))
def test_a_cost_never_exceeds_the_bound_of_a_request_that_kept_to_its_own(
    price: Price, usage: Usage, more_in: int, more_out: int
) -> None:
    bound = price.compute_bound(usage.input + more_in, usage.output + more_out)
    assert 0 <= price.compute_cost(usage).nusd <= bound


@given(prices, usages)
def test_a_cost_is_the_exact_sum_of_its_tiers_rounded_once(price: Price, usage: Usage) -> None:
    written = min(usage.cache_write or 0, usage.input)
    hour = min(usage.cache_write_1h or 0, written)
    cached = min(usage.cached or 0, usage.input - written)
    write = price.input if price.cache_write is None else price.cache_write
    total = (
        (usage.input - written - cached) * price.input
        + cached * (price.input if price.cached is None else price.cached)
        + (written - hour) * write
        + hour * (write if price.cache_write_1h is None else price.cache_write_1h)
        + usage.output * price.output
    )
    whole, rest = divmod(total, 10**6)
    rounded = (Decimal(rest) / 10**6 + whole % 2).quantize(Decimal(1), ROUND_HALF_EVEN) - whole % 2
    assert price.compute_cost(usage).nusd == whole + int(rounded)
