from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.money import divide_half_even, divide_rounding_up, format_nano_usd, parse_usd, to_nusd


@pytest.mark.parametrize("text", ["5", "$5", "5 USD", "5usd", "$ 5.00", " 5.0 "])
def test_five_dollars_are_read_however_they_are_written(text: str) -> None:
    assert parse_usd(text) == 5_000_000_000


@pytest.mark.parametrize(
    ("text", "nusd"), [("0", 0), (".25", 250_000_000), ("0.000000001", 1), ("1000000", 10**15), ("1.", 10**9)]
)
def test_amounts_are_exact(text: str, nusd: int) -> None:
    assert parse_usd(text) == nusd


@pytest.mark.parametrize(
    "text",
    ["", "$", "five", "5 EUR", "-1", "1e3", "1,5", "1_000", "NaN", "Infinity", "0x5", "5 5", "1000000.1", "٥", "5\x00"],
)
def test_what_is_no_amount_is_refused_with_one_line_that_shows_it(text: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_usd(text)
    assert "\n" not in str(refused.value)
    assert "US dollars" in str(refused.value)


@pytest.mark.parametrize(
    "value", ["0.0000000001", Decimal("0.0000000001"), Decimal("1e-999999"), "0." + "0" * 39 + "1"]
)
def test_more_than_nine_decimals_are_refused_and_never_rounded(value: str | Decimal) -> None:
    with pytest.raises(ValueError, match="at most 9 decimals"):
        to_nusd(value)


@pytest.mark.parametrize("value", [0.1, True, None, [], Decimal("NaN"), Decimal(-1), -1, 10**400])
def test_a_float_is_no_amount_and_neither_is_anything_else(value: Any) -> None:
    with pytest.raises(ValueError, match="US dollars"):
        to_nusd(value)


@pytest.mark.parametrize("value", [Decimal("0E+99"), Decimal("-0.0"), 0, Decimal("0e-99")])
def test_every_zero_is_zero(value: int | Decimal) -> None:
    assert to_nusd(value) == 0


def test_trailing_zeros_are_no_decimals() -> None:
    assert to_nusd(Decimal("1.50000000000000000000000000000000000000000")) == 1_500_000_000


@given(st.integers(0, 10**15))
def test_what_is_written_is_read_back(nusd: int) -> None:
    assert parse_usd(format_nano_usd(nusd)) == nusd
    assert to_nusd(Decimal(format_nano_usd(nusd))) == nusd


def test_amounts_are_written_without_needless_zeros() -> None:
    assert [format_nano_usd(n) for n in (0, 1, 1_500_000_000, 10**15, -250_000_000)] == [
        "0",
        "0.000000001",
        "1.5",
        "1000000",
        "-0.25",
    ]


@given(st.integers(0, 10**24), st.integers(1, 10**9))
def test_quotients_are_rounded_half_to_even_and_bounds_up(numerator: int, denominator: int) -> None:
    exact = Decimal(numerator) / Decimal(denominator)
    assert divide_rounding_up(numerator, denominator) == -(-numerator // denominator)
    assert divide_half_even(numerator, denominator) <= divide_rounding_up(numerator, denominator)
    if numerator < 10**12:
        assert divide_half_even(numerator, denominator) == int(exact.quantize(Decimal(1), ROUND_HALF_EVEN))


def test_a_half_goes_to_the_even_side() -> None:
    assert [divide_half_even(n, 2) for n in (1, 3, 5, 7)] == [0, 2, 2, 4]
