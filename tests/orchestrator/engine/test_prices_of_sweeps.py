"""Prices from configuration to the record of a sweep."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.engine.caps import prices_of, refuse_unknown_costs, select_prices
from orchestrator.measured import config_hash
from orchestrator.suite.config import Config, load_config, with_prices
from orchestrator.suite.effects import Grants
from orchestrator.suite.settings import Settings
from providers.base import AgentSettings
from providers.prices.price import Price
from store.errors import UsageError
from store.records import CommandRow, WorkerAccount
from store.rows import Amount, Caps
from tests.orchestrator.reports import stored

M = Price(input=10**9, output=2 * 10**9)
DEARER = Price(input=3 * 10**9, output=4 * 10**9)


def table(model: str = "m", **tiers: Any) -> dict[str, Any]:
    return {"schemaVersion": 1, "prices": {model: {"input": 1, "output": 2} | tiers}}


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., Path]:
    def write(name: str, document: dict[str, Any]) -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document), encoding="utf-8")
        return file

    return write


def load(tmp_path: Path, explicit: Path | None = None) -> Config:
    return load_config({"EVALCTL_CONFIG_HOME": str(tmp_path / "user")}, tmp_path, explicit, False)


def test_the_flag_beats_the_project_which_beats_the_user_model_by_model(
    files: Callable[..., Path], tmp_path: Path
) -> None:
    files(
        "user/config.json",
        {"schemaVersion": 1, "prices": {"m": {"input": 9, "output": 9}, "u": {"input": 1, "output": 2}}},
    )
    project = files("evalctl.json", table(cached=0.5))
    config = load(tmp_path)
    assert config.prices["m"].cached == 500_000_000
    assert config.prices["u"] == M
    assert config.origins["prices.m"] == str(project)
    flag = files("flag.json", table(input=3, output=4))
    config = with_prices(config, flag)
    assert config.prices["m"] == DEARER, "tiers of two price lists are not mixed"
    assert config.origins["prices.m"] == f"--prices {flag}"


def test_prices_are_no_part_of_what_is_measured(files: Callable[..., Path], tmp_path: Path) -> None:
    plain = config_hash(load(tmp_path).agent)
    files("evalctl.json", table())
    assert config_hash(load(tmp_path).agent) == plain


def test_a_malformed_price_is_told_with_the_other_findings_of_its_file(
    files: Callable[..., Path], tmp_path: Path
) -> None:
    files("evalctl.json", {"schemaVersion": 1, "price": 1, "prices": {"m": {"input": "x", "output": 2}}})
    with pytest.raises(UsageError) as refused:
        load(tmp_path)
    assert "did you mean 'prices'?" in str(refused.value)
    assert "prices.m.input: expected US dollars" in str(refused.value)


def test_a_cap_in_usd_needs_the_price_of_every_model_that_is_asked() -> None:
    with pytest.raises(UsageError) as refused:
        select_prices(Caps(nusd=1), ["m", "n"], {"m": M})
    assert "'n'" in str(refused.value)
    assert "--prices" in str(refused.value)
    assert select_prices(Caps(calls=1), ["n"], {"m": M}) == {}
    assert select_prices(Caps(nusd=1), ["m"], {"m": M, "other": M}) == {"m": M}
    assert select_prices(Caps(nusd=1), ["m"], {"m": Price(input=0, output=0)})


def test_settings_come_back_from_the_store_with_their_prices() -> None:
    settings = Settings(
        suite="s", provider="p", model="m", agent=AgentSettings(), config_hash="c", grants=Grants(), prices={"m": M}
    )
    stored = json.loads(json.dumps(settings.to_json()))
    assert stored["prices"] == {"m": {"input": "1", "output": "2"}}
    assert Settings.from_json(stored) == settings
    del stored["prices"]
    assert Settings.from_json(stored).prices == {}


def test_prices_given_with_a_raised_cap_hold_from_then_on() -> None:
    row = stored.sweep_row(conditions={"settings": {"prices": {"m": {"input": "1", "output": "2"}}}})
    raised = CommandRow(
        id=1, verb="raise_cap", who="w", why="resume", payload={"nusd": 5, "prices": {"m": DEARER.to_json()}}, at=1
    )
    assert prices_of(row, []) == {"m": M}
    assert prices_of(row, [raised]) == {"m": DEARER}


def test_a_sweep_whose_spending_is_unknown_gets_no_cap_in_usd() -> None:
    def account(unpriced: int) -> WorkerAccount:
        return WorkerAccount(
            worker_id=1, allotments=0, allotted=Amount(), proven=Amount(calls=9), unpriced=unpriced, settled=False
        )

    refuse_unknown_costs([account(0)])
    with pytest.raises(UsageError, match="the cost of 3 requests of this sweep is unknown"):
        refuse_unknown_costs([account(1), account(2)])
