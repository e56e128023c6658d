"""What one request is charged: its bound before it is sent, and what it came to when it has ended.

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
"""Where a cost comes from; `bound`: it is at most so much."""


@attrs.frozen(kw_only=True)
class Charge:
    """What a request that has ended is charged."""

    amount: Amount
    """Against the sweep's caps. An unknown cost counts nothing here; under a cap in USD none is unknown."""
    usage: Usage | None = None
    """As it was reported, where it can be true."""
    unknown: bool = False
    """Usage was not reported: the amount is a bound."""
    cost_nusd: int | None = None
    """None: unknown."""
    source: CostSource | None = None
    implausible: bool = False
    """What was reported cannot be true and counts as not reported."""
    above_bound: bool = False
    """The provider reported more than the request was allowed."""


def bound_of(size: int, limit: int | None, price: Price | None) -> Amount:
    """The most that a request of *size* bytes can come to: a token is at least a byte.

    Without an output limit, or without a price, it is a lower bound and no more; under a cap neither is missing.
    """
    output = limit or 0
    nusd = price.compute_bound(size, output) if price is not None else 0
    return Amount(calls=1, tokens=size + output, nusd=nusd)


def charge_of(reply: Answer | ProviderError | None, bound: Amount, price: Price | None, *, limited: bool) -> Charge:
    """What the request came to; no *reply* where it was cut off. *limited*: it had an output limit.

    Usage that was not reported is charged its bound. Only the call itself counts where it was turned away: an endpoint
    that throttles or is down for an hour must not use up the tokens and the money of the night.
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
    """Tokens, cost and its source where no usage was reported."""
    if not unknown:
        return 0, *((None, None) if price is None else (0, "prices"))
    if price is not None and price.free:
        return bound.tokens, 0, "prices"
    if price is None or not limited:
        return bound.tokens, None, None
    return bound.tokens, bound.nusd, "bound"


def _is_possible_cost(nusd: int | None) -> bool:
    return nusd is None or (type(nusd) is int and 0 <= nusd <= MAX_USD * NUSD_PER_USD)
