"""Money: US dollars as people write them, and the integer nano-USD that is reckoned with.

Without SQL. Nothing here is ever a float: a dollar is 1,000,000,000 nano-USD, and a price per million tokens has
at most nine decimals, so every cost is a sum and a division of integers.
"""

from __future__ import annotations

import re
from decimal import Decimal

from store.documents.structure import show
from store.events import Json

NUSD = 1_000_000_000
"""Nano-USD in a US dollar."""
DECIMALS = 9
DEAREST = 1_000_000
"""US dollars: more is no price of a million tokens, and no cap that anybody means."""

_AMOUNT = re.compile(r"\$?[ ]*([0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})[ ]*(?:usd)?", re.IGNORECASE)


def parse_usd(text: str) -> int:
    """Nano-USD from `5`, `$5`, `5 USD`, `0.25`.

    Raises:
        ValueError: it is none of these, has more than nine decimals, or is more than a million; the message is one line
            and complete.
    """
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"expected US dollars such as 5, $5 or 0.25, got {show(text)}")
    return to_nusd(Decimal(found[1]))


def to_nusd(value: Json) -> int:
    """Nano-USD from a JSON number of dollars (int or Decimal) or from text.

    Raises:
        ValueError: see `parse_usd`; a float is refused too, since what was written is lost in it.
    """
    if isinstance(value, str):
        return parse_usd(value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise ValueError(  # noqa: TRY004 - one error for every value that is no amount
            f"expected US dollars as a number or as text, got {show(value)}"
        )
    if isinstance(value, Decimal) and not value.is_finite():
        raise ValueError(f"expected US dollars, got {show(value)}")
    if not 0 <= value <= DEAREST:
        raise ValueError(f"expected 0 to {DEAREST:,} US dollars, got {show(value)}")
    # By the digits themselves: arithmetic of decimals would round what is longer than its context.
    _sign, digits, exponent = Decimal(value).as_tuple()
    assert isinstance(exponent, int), "a finite number has an exponent"
    number, power = int("".join(map(str, digits))), exponent + DECIMALS
    while number and power < 0 and number % 10 == 0:
        number, power = number // 10, power + 1
    if number and power < 0:
        raise ValueError(f"expected at most {DECIMALS} decimals, got {show(value)}")
    return number * 10**power if number else 0


def usd(nusd: int) -> str:
    """Nano-USD as an exact decimal number of dollars, without needless zeros: 1500000000 is `1.5`."""
    whole, rest = divmod(abs(nusd), NUSD)
    decimals = f"{rest:0{DECIMALS}}".rstrip("0")
    return f"{'-' if nusd < 0 else ''}{whole}{'.' if decimals else ''}{decimals}"


def divided(numerator: int, denominator: int) -> int:
    """A quotient of whole numbers that are not negative, rounded half to even."""
    quotient, rest = divmod(numerator, denominator)
    twice = 2 * rest
    return quotient + (twice > denominator or (twice == denominator and quotient % 2 == 1))


def divided_up(numerator: int, denominator: int) -> int:
    """The same, rounded up: what a bound needs."""
    return -(-numerator // denominator)
