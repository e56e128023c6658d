"""What a sweep may spend: the caps it was planned with, as raised since, and the prices that a cap in USD needs."""

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
    """The caps that hold now; a `raise_cap` names new totals, and only of the caps it changes."""
    settings = sweep.conditions.get("settings")
    planned = settings.get("caps") if isinstance(settings, Mapping) else None
    caps = _change_caps(Caps(), planned if isinstance(planned, Mapping) else {})
    for row in commands:
        if row.verb == "raise_cap":
            caps = _change_caps(caps, row.payload)
    return caps


def prices_of(sweep: SweepRow, commands: Iterable[CommandRow]) -> Prices:
    """The prices that hold now: those it was planned with, and those that came with raised caps."""
    settings = sweep.conditions.get("settings")
    planned = settings.get(table.PRICES_KEY) if isinstance(settings, Mapping) else None
    found = dict(table.parse_prices(planned or {}))
    for row in commands:
        if row.verb == "raise_cap":
            found |= table.parse_prices(row.payload.get(table.PRICES_KEY) or {})
    return found


def select_prices(caps: Caps, models: Collection[str], prices: Prices) -> Prices:
    """Of all that configuration knows, the prices of the *models* that a sweep asks.

    Raises:
        UsageError: there is a cap in USD and one of them has no price.
    """
    found = {model: prices[model] for model in models if model in prices}
    unknown = [model for model in models if model not in prices]
    if unknown and caps.nusd is not None:
        named = ", ".join(map(repr, unknown))
        example = json.dumps({"schemaVersion": 1, table.PRICES_KEY: {unknown[0]: {"input": 1.0, "output": 2.0}}})
        raise UsageError(
            f"--max-cost-usd: what {named} costs is not known",
            f"Give its price in USD per million tokens (0 where it is free), in a file for --prices: {example}\n"
            "The same key `prices` may stand in the project's evalctl.json or in your own config.json. "
            "--max-calls and --max-tokens need no price.",
        )
    return found


def refuse_unknown_costs(accounts: Iterable[WorkerAccount]) -> None:
    """A sweep gets a cap in USD later only if it counts all that was spent: caps are totals.

    Raises:
        UsageError: requests were made whose cost nobody knows.
    """
    unknown = sum(account.unpriced for account in accounts)
    if unknown:
        raise UsageError(
            f"--max-cost-usd: what {format_count(unknown, 'request')} of this sweep cost is not known, and a "
            f"cap in USD is "
            "a total that has to count it",
            "--max-calls and --max-tokens can. A new sweep with a price can have a cap in USD from its start.",
        )


def _change_caps(caps: Caps, changes: Mapping[str, Any]) -> Caps:
    names = [field.name for field in attrs.fields(Caps)]
    return attrs.evolve(caps, **{name: int(changes[name]) for name in names if changes.get(name) is not None})
