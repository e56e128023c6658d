"""Caps of a sweep: those it was planned with, as raised since, and the prices that a cap in USD needs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from orchestrator.text import format_count
from providers.prices import table
from store.errors import UsageError
from store.rows import Caps, SweepRow

if TYPE_CHECKING:
    from providers.prices.table import Prices
    from store.records import CommandRow, WorkerAccount


def caps_of(sweep: SweepRow, commands: Iterable[CommandRow]) -> Caps:
    """The caps in force: each `raise_cap` command sets new totals for the caps that it names."""
    settings = sweep.conditions.get("settings")
    planned = settings.get("caps") if isinstance(settings, Mapping) else None
    caps = _change_caps(Caps(), planned if isinstance(planned, Mapping) else {})
    for row in commands:
        if row.verb == "raise_cap":
            caps = _change_caps(caps, row.payload)
    return caps


def prices_of(sweep: SweepRow, commands: Iterable[CommandRow]) -> Prices:
    """The prices in force: those the sweep was planned with, and those stored with each raised cap."""
    settings = sweep.conditions.get("settings")
    planned = settings.get(table.PRICES_KEY) if isinstance(settings, Mapping) else None
    prices = dict(table.parse_prices(planned or {}))
    for row in commands:
        if row.verb == "raise_cap":
            prices |= table.parse_prices(row.payload.get(table.PRICES_KEY) or {})
    return prices


def select_prices(caps: Caps, models: Collection[str], prices: Prices) -> Prices:
    """Select the prices of the *models* that a sweep calls.

    Raises:
        UsageError: there is a cap in USD, and a model has no price.
    """
    selected = {model: prices[model] for model in models if model in prices}
    unknown = [model for model in models if model not in prices]
    if unknown and caps.nusd is not None:
        named = ", ".join(map(repr, unknown))
        example = json.dumps({"schemaVersion": 1, table.PRICES_KEY: {unknown[0]: {"input": 1.0, "output": 2.0}}})
        raise UsageError(
            f"--max-cost-usd: the price of {named} is unknown",
            f"Write its price in USD per million tokens (0 if it is free) to a file for --prices: {example}\n"
            "The project's evalctl.json and your own config.json accept the same key `prices`. "
            "--max-calls and --max-tokens need no price.",
        )
    return selected


def refuse_unknown_costs(accounts: Iterable[WorkerAccount]) -> None:
    """Refuse a later cap in USD for a sweep with requests of unknown cost: a cap is a total over all requests.

    Raises:
        UsageError: there are requests of unknown cost.
    """
    unknown = sum(account.unpriced for account in accounts)
    if unknown:
        raise UsageError(
            f"--max-cost-usd: the cost of {format_count(unknown, 'request')} of this sweep is unknown, but a cap in "
            "USD has to count every request",
            "Use --max-calls or --max-tokens, or start a new sweep with a price and a cap in USD.",
        )


def _change_caps(caps: Caps, changes: Mapping[str, Any]) -> Caps:
    names = [field.name for field in attrs.fields(Caps)]
    return attrs.evolve(caps, **{name: int(changes[name]) for name in names if changes.get(name) is not None})
