"""Price tables in files: `{"some-model": {"input": 1.0, "output": "2.5", "cached": 0.1, "cacheWrite": 1.25}}`.

Prices are USD per million tokens, as numbers or decimal text; numbers are parsed exactly, never through a float.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from providers.prices.price import REQUIRED, TIERS, Price
from store.documents.structure import Problem, show, suggest
from store.money import to_nusd

if TYPE_CHECKING:
    from store.documents.positions import Document
    from store.events import Json

Prices = Mapping[str, Price]
"""Price by model name, as used in requests."""

KEY = "prices"
"""Key of the table in configuration files and in price files."""
MAX_MODELS = 10_000


def exact(document: Document) -> Json:
    """The document's `prices` with exact numbers; None if it has none.

    The strict reader has already parsed the document, so it is valid JSON.
    """
    if not isinstance(document.value, dict) or KEY not in document.value:
        return None
    return json.loads(document.raw, parse_float=Decimal)[KEY]


def problems(value: Json) -> Iterator[Problem]:
    """All problems of *value* as a price table."""
    if not isinstance(value, dict):
        yield (KEY,), f"expected an object of models and their prices, got {show(value)}"
        return
    if len(value) > MAX_MODELS:
        yield (KEY,), f"expected at most {MAX_MODELS:,} models, got {len(value):,}"
        return
    for model, tiers in value.items():
        at = (KEY, model)
        if not model.strip():
            yield at, "expected the name of a model"
        if not isinstance(tiers, dict):
            yield at, f'expected an object such as {{"input": 1.0, "output": 2.0}}, got {show(tiers)}'
            continue
        for name in REQUIRED:
            if name not in tiers:
                yield at, f"missing required field {name!r}: USD per million tokens, 0 where it is free"
        for name, price in tiers.items():
            if name not in TIERS:
                yield (*at, name), f"unknown field {name!r}{suggest(name, [*TIERS])}"
            elif problem := _problem(price):
                yield (*at, name), problem


def read(value: Mapping[str, Any]) -> dict[str, Price]:
    """Parse a price table that has no `problems`, such as the result of `written`."""
    return {
        model: Price(**{TIERS[name]: to_nusd(price) for name, price in tiers.items() if name in TIERS})
        for model, tiers in value.items()
    }


def written(prices: Prices) -> dict[str, Json]:
    """The table for storage, with exact decimal text."""
    return {model: price.to_json() for model, price in prices.items()}


def load(file: Path) -> dict[str, Price]:
    """Read a price file: `{"schemaVersion": 1, "prices": {...}}`.

    Raises:
        UsageError: it cannot be read or is invalid; lists every finding.
    """
    from store.documents.positions import read_json

    document = read_json(file)
    table = exact(document)
    found = [*_document(document.value), *(problems(table) if table is not None else ())]
    if found:
        raise document.refusal(document.finding(path, message) for path, message in found)
    return read(table)


def _document(value: Json) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield (), f"expected an object, got {show(value)}"
        return
    for name in ("schemaVersion", KEY):
        if value.get(name) is None:
            yield (), f"missing required field {name!r}"
    if (version := value.get("schemaVersion")) is not None and (type(version) is not int or version != 1):
        yield ("schemaVersion",), f"expected 1, got {show(version)}"
    for name in value:
        if name not in {"schemaVersion", KEY}:
            yield (name,), f"unknown field {name!r}{suggest(name, ['schemaVersion', KEY])}"


def _problem(price: Json) -> str | None:
    try:
        to_nusd(price)
    except ValueError as error:
        return str(error)
    return None
