"""Charge of one request: its upper bound before it is sent, and its charge when it has ended.

Pure: the gate reserves, settles and records.
"""

from __future__ import annotations

from typing import Literal

import attrs

from providers.base import Answer
from providers.endpoints.usage import is_plausible
from providers.errors import ProviderError
from providers.prices.price import Price
from providers.usage import Usage
from store.money import MAX_USD, NUSD_PER_USD
from store.rows import Amount

CostSource = Literal["prices", "reported", "bound"]
"""Source of a cost: the price table, the provider's report, or the upper bound."""


@attrs.frozen(kw_only=True)
class Charge:
    """Charge of a request that has ended."""

    amount: Amount
    """Charged against the sweep's caps. An unknown cost counts as 0; under a cap in USD every cost is known."""
    usage: Usage | None = None
    """The reported usage; None if none was reported, or if it cannot be true."""
    unknown: bool = False
    """Whether no usage was reported: then the tokens of the amount are a bound."""
    cost_nusd: int | None = None
    """Cost in nano-USD; None if unknown."""
    source: CostSource | None = None
    implausible: bool = False
    """Whether the reported usage or cost cannot be true; it is then treated as not reported."""
    above_bound: bool = False
    """Whether the provider reported more than the request's bound."""


def bound_of(size: int, limit: int | None, price: Price | None) -> Amount:
    """Upper bound of a request of *size* bytes with the output limit *limit*: a token is at least a byte.

    Without an output limit or a price the result is only a lower bound; under a cap neither is missing.
    """
    output = limit or 0
    nusd = price.compute_bound(size, output) if price is not None else 0
    return Amount(calls=1, tokens=size + output, nusd=nusd)


def charge_of(reply: Answer | ProviderError | None, bound: Amount, price: Price | None, *, limited: bool) -> Charge:
    """Compute the charge of a request that has ended.

    Unreported usage is charged at its bound. A request that was turned away counts as one call without tokens or cost:
    an endpoint that throttles or is down for an hour must not use up the caps.

    Args:
        reply: the answer or the error; None if the request was cut off.
        bound: the request's upper bound.
        price: of the request's model; None if unknown.
        limited: whether the request had an output limit.
    """
    usage = reply.usage if reply is not None else None
    reported = reply.cost_nusd if isinstance(reply, Answer) else None
    implausible = not is_plausible(usage) or not _is_possible_cost(reported)
    if not is_plausible(usage):
        usage = None
    if not _is_possible_cost(reported):
        reported = None
    if usage is None or usage.input is None or usage.output is None:
        unknown = not (isinstance(reply, ProviderError) and usage is None and reply.turned_away)
        tokens, nusd, source = _charge_unreported(bound, price, unknown=unknown, limited=limited)
    else:
        cost = price.compute_cost(usage) if price is not None else None
        tokens, unknown = usage.input + usage.output, False
        nusd = cost.nusd if cost is not None else None
        source = None if cost is None else "prices" if cost.exact else "bound"
    if reported is not None:
        nusd, source = reported, "reported"
    return Charge(
        amount=Amount(calls=1, tokens=tokens, nusd=nusd or 0),
        usage=usage,
        unknown=unknown,
        cost_nusd=nusd,
        source=source,
        implausible=implausible,
        above_bound=tokens > bound.tokens or (price is not None and (nusd or 0) > bound.nusd),
    )


def _charge_unreported(
    bound: Amount, price: Price | None, *, unknown: bool, limited: bool
) -> tuple[int, int | None, CostSource | None]:
    """Tokens, cost in nano-USD and its source for a request without reported usage."""
    if not unknown:
        return 0, *((None, None) if price is None else (0, "prices"))
    if price is not None and price.free:
        return bound.tokens, 0, "prices"
    if price is None or not limited:
        return bound.tokens, None, None
    return bound.tokens, bound.nusd, "bound"


def _is_possible_cost(nusd: int | None) -> bool:
    return nusd is None or (type(nusd) is int and 0 <= nusd <= MAX_USD * NUSD_PER_USD)
