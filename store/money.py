"""Money as integer nano-USD: parsing, formatting and exact division.

No floats: a dollar is 1,000,000,000 nano-USD, and a price per million tokens has at most nine decimals, so that every
cost is a sum and a division of integers.
"""

from __future__ import annotations

import re
from decimal import Decimal

from store.documents.structure import describe_value
from store.events import Json

NUSD_PER_USD = 1_000_000_000
"""Nano-USD in a US dollar."""
MAX_USD_DECIMALS = 9
MAX_USD = 1_000_000
"""The largest accepted amount in US dollars, both for a price of a million tokens and for a cap."""

_AMOUNT = re.compile(r"\$?[ ]*([0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})[ ]*(?:usd)?", re.IGNORECASE)


def parse_usd(text: str) -> int:
    """Parse an amount such as `5`, `$5`, `5 USD` or `0.25` into nano-USD.

    Raises:
        ValueError: *text* has another form, more than nine decimals, or is above a million dollars. The message is one
            complete line.
    """
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"expected US dollars such as 5, $5 or 0.25, got {describe_value(text)}")
    return to_nusd(Decimal(match[1]))


def to_nusd(value: Json) -> int:
    """Convert a JSON number of dollars (int or Decimal) or a text into nano-USD.

    Raises:
        ValueError: as for `parse_usd`, and for a float, which has lost the digits that were written.
    """
    if isinstance(value, str):
        return parse_usd(value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise ValueError(  # noqa: TRY004 - one error for every invalid amount
            f"expected US dollars as a number or as text, got {describe_value(value)}"
        )
    if isinstance(value, Decimal) and not value.is_finite():
        raise ValueError(f"expected US dollars, got {describe_value(value)}")
    if not 0 <= value <= MAX_USD:
        raise ValueError(f"expected 0 to {MAX_USD:,} US dollars, got {describe_value(value)}")
    # Uses the digits themselves: decimal arithmetic would round a number longer than its context.
    _sign, digits, exponent = Decimal(value).as_tuple()
    assert isinstance(exponent, int), "a finite number has an exponent"
    number, power = int("".join(map(str, digits))), exponent + MAX_USD_DECIMALS
    while number and power < 0 and number % 10 == 0:
        number, power = number // 10, power + 1
    if number and power < 0:
        raise ValueError(f"expected at most {MAX_USD_DECIMALS} decimals, got {describe_value(value)}")
    return number * 10**power if number else 0


def format_nano_usd(nusd: int) -> str:
    """Format nano-USD as exact dollars without trailing zeros: 1500000000 becomes `1.5`."""
    whole, rest = divmod(abs(nusd), NUSD_PER_USD)
    decimals = f"{rest:0{MAX_USD_DECIMALS}}".rstrip("0")
    return f"{'-' if nusd < 0 else ''}{whole}{'.' if decimals else ''}{decimals}"


def divide_half_even(numerator: int, denominator: int) -> int:
    """Divide two non-negative integers, rounding half to even."""
    quotient, rest = divmod(numerator, denominator)
    twice = 2 * rest
    return quotient + (twice > denominator or (twice == denominator and quotient % 2 == 1))


def divide_rounding_up(numerator: int, denominator: int) -> int:
    """Divide two non-negative integers, rounding up, as an upper bound needs."""
    return -(-numerator // denominator)
