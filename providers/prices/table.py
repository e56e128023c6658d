"""Price tables in files: `{"some-model": {"input": 1.0, "output": "2.5", "cached": 0.1, "cacheWrite": 1.25}}`.

Prices are USD per million tokens, as numbers or decimal text; numbers are parsed exactly, never through a float.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from providers.prices.price import REQUIRED_TIERS, TIER_FIELDS, Price
from store.documents.positions import Document, read_json
from store.documents.structure import PathMessage, describe_value, suggest_nearest
from store.money import to_nusd

if TYPE_CHECKING:
    from store.events import Json

Prices = Mapping[str, Price]
"""Price by model name, as used in requests."""

PRICES_KEY = "prices"
"""Key of the table in configuration files and in price files."""
MAX_MODELS = 10_000


def read_exact_table(document: Document) -> Json:
    """The document's `prices` with exact numbers; None if it has none.

    The strict reader has already parsed the document, so it is valid JSON.
    """
    if not isinstance(document.value, dict) or PRICES_KEY not in document.value:
        return None
    return json.loads(document.raw, parse_float=Decimal)[PRICES_KEY]


def find_table_problems(value: Json) -> Iterator[PathMessage]:
    """All problems of *value* as a price table."""
    if not isinstance(value, dict):
        yield (PRICES_KEY,), f"expected an object of models and their prices, got {describe_value(value)}"
        return
    if len(value) > MAX_MODELS:
        yield (PRICES_KEY,), f"expected at most {MAX_MODELS:,} models, got {len(value):,}"
        return
    for model, tiers in value.items():
        yield from _find_model_problems(model, tiers)


def _find_model_problems(model: str, tiers: Json) -> Iterator[PathMessage]:
    at = (PRICES_KEY, model)
    if not model.strip():
        yield at, "expected the name of a model"
    if not isinstance(tiers, dict):
        yield at, f'expected an object such as {{"input": 1.0, "output": 2.0}}, got {describe_value(tiers)}'
        return
    for name in REQUIRED_TIERS:
        if name not in tiers:
            yield at, f"missing required field {name!r}: USD per million tokens, 0 where it is free"
    for name, price in tiers.items():
        if name not in TIER_FIELDS:
            yield (*at, name), f"unknown field {name!r}{suggest_nearest(name, [*TIER_FIELDS])}"
        elif problem := _find_price_problem(price):
            yield (*at, name), problem


def parse_prices(value: Mapping[str, Any]) -> dict[str, Price]:
    """Parse a price table that has no `find_table_problems`, such as the result of `render_prices`."""
    return {
        model: Price(**{TIER_FIELDS[name]: to_nusd(price) for name, price in tiers.items() if name in TIER_FIELDS})
        for model, tiers in value.items()
    }


def render_prices(prices: Prices) -> dict[str, Json]:
    """The table for storage, with exact decimal text."""
    return {model: price.to_json() for model, price in prices.items()}


def load_prices(file: Path) -> dict[str, Price]:
    """Read a price file: `{"schemaVersion": 1, "prices": {...}}`.

    Raises:
        UsageError: it cannot be read or is invalid; lists every finding.
    """
    document = read_json(file)
    table = read_exact_table(document)
    problems = [*_find_document_problems(document.value), *(find_table_problems(table) if table is not None else ())]
    if problems:
        raise document.make_usage_error(document.locate_problem(path, message) for path, message in problems)
    return parse_prices(table)


def _find_document_problems(value: Json) -> Iterator[PathMessage]:
    if not isinstance(value, dict):
        yield (), f"expected an object, got {describe_value(value)}"
        return
    for name in ("schemaVersion", PRICES_KEY):
        if value.get(name) is None:
            yield (), f"missing required field {name!r}"
    if (version := value.get("schemaVersion")) is not None and (type(version) is not int or version != 1):
        yield ("schemaVersion",), f"expected 1, got {describe_value(version)}"
    for name in value:
        if name not in {"schemaVersion", PRICES_KEY}:
            yield (name,), f"unknown field {name!r}{suggest_nearest(name, ['schemaVersion', PRICES_KEY])}"


def _find_price_problem(price: Json) -> str | None:
    try:
        to_nusd(price)
    except ValueError as error:
        return str(error)
    return None
