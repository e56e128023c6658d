from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from providers.prices import table
from providers.prices.price import Price
from store.errors import UsageError


def written(tmp_path: Path, text: Any) -> Path:
    file = tmp_path / "prices.json"
    file.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
    return file


def test_numbers_and_decimal_text_are_read_exactly_as_they_are_written(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        '{"schemaVersion": 1, "prices": {"a/b": {"input": 0.1, "output": "2.50", "cached": 1e-2, "cacheWrite": 3, '
        '"cacheWrite1h": "$4"}, "free": {"input": 0, "output": 0.0}}}',
    )
    assert table.load_prices(file) == {
        "a/b": Price(
            input=100_000_000,
            output=2_500_000_000,
            cached=10_000_000,
            cache_write=3_000_000_000,
            cache_write_1h=4_000_000_000,
        ),
        "free": Price(input=0, output=0),
    }


def test_a_digit_that_a_float_would_lose_is_seen(tmp_path: Path) -> None:
    text = '{"schemaVersion": 1, "prices": {"m": {"input": 0.10000000000000000000000001, "output": 1}}}'
    with pytest.raises(UsageError, match=r"prices\.m\.input: expected at most 9 decimals"):
        table.load_prices(written(tmp_path, text))


@pytest.mark.parametrize(
    ("prices", "said"),
    [
        ([], "prices: expected an object of models"),
        (None, "missing required field 'prices'"),
        ({"m": 3}, "prices.m: expected an object such as"),
        ({"m": {"input": 1}}, "prices.m: missing required field 'output'"),
        ({"m": {"input": 1, "output": True}}, "prices.m.output: expected US dollars as a number or as text, got true"),
        ({"m": {"input": 1, "output": -1}}, "prices.m.output: expected 0 to 1,000,000 US dollars, got -1"),
        ({"m": {"input": 1, "output": "cheap"}}, "prices.m.output: expected US dollars such as"),
        ({"m": {"input": 1, "output": None}}, "prices.m.output: expected US dollars"),
        ({"m": {"input": 1, "output": 1, "cacheRead": 1}}, "unknown field 'cacheRead' (did you mean 'cached'?)"),
        ({" ": {"input": 1, "output": 1}}, "expected the name of a model"),
    ],
)
def test_a_table_that_is_none_is_refused_with_its_place(tmp_path: Path, prices: Any, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        table.load_prices(written(tmp_path, {"schemaVersion": 1, "prices": prices}))
    assert said.replace("(did you mean 'cached'?)", "") in str(refused.value)
    assert "prices.json:1:" in str(refused.value)


def test_all_findings_come_at_once(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        table.load_prices(written(tmp_path, {"schemaVersion": 2, "prices": {"a": {"input": "x"}}, "model": "m"}))
    assert len(str(refused.value).splitlines()) == 4


def test_what_is_stored_is_read_back() -> None:
    prices = {"m": Price(input=1, output=2_000_000_001, cached=0)}
    assert table.render_prices(prices) == {"m": {"input": "0.000000001", "output": "2.000000001", "cached": "0"}}
    assert table.parse_prices(table.render_prices(prices)) == prices
