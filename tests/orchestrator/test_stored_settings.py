"""Settings as they are stored: those of suites byte for byte, those of labs in the old form and in the new one."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import attrs
import pytest

from orchestrator.engine.kind import Terms
from orchestrator.lab.report.conditions import read_conditions
from orchestrator.lab.settings import LabSettings
from orchestrator.suite.settings import STORED_FIELDS, Settings
from providers.prices.price import Price
from store.documents.encoding import encode_json
from store.rows import Caps, CellRecord
from tests.orchestrator.reports import stored

FORMATS = Path(__file__).parents[1] / "formats"
LAB = json.loads((FORMATS / "lab-conditions-1.json").read_text(encoding="utf-8"))
"""Conditions of a lab's sweep as version 0.1.0 stored them, with placeholders for a suite's settings."""


def stored_settings() -> str:
    """The settings in `store-1.db`, as text."""
    with closing(sqlite3.connect(f"file:{FORMATS / 'store-1.db'}?mode=ro&immutable=1", uri=True)) as connection:
        ((conditions,),) = connection.execute("SELECT conditions FROM sweep")
    start = conditions.index('"settings":') + len('"settings":')
    _, end = json.JSONDecoder().raw_decode(conditions, start)
    return conditions[start:end]


def test_settings_of_a_suite_are_written_back_byte_for_byte() -> None:
    text = stored_settings()
    assert encode_json(Settings.from_json(json.loads(text)).to_json()) == text


def test_every_field_of_a_suites_settings_has_its_place_in_the_stored_order() -> None:
    assert sorted(STORED_FIELDS) == sorted(field.name for field in attrs.fields(Settings))


def test_settings_of_a_lab_are_read_from_an_older_version() -> None:
    settings = LabSettings.from_json(LAB["settings"])
    assert settings == LabSettings(
        k=4,
        caps=Caps(calls=500, nusd=5_000_000_000),
        prices={"jev-1": Price(input=1_000_000_000, output=2_500_000_000)},
        targets=("jev", "nimble"),
    )


def test_settings_of_a_lab_hold_the_engines_terms_and_its_targets_alone() -> None:
    settings = LabSettings.from_json(LAB["settings"])
    stored = json.loads(encode_json(settings.to_json()))
    assert set(stored) == {field.name for field in attrs.fields(Terms)} | {"targets"}
    assert LabSettings.from_json(stored) == settings


def test_a_field_of_a_newer_version_is_left_out() -> None:
    settings = LabSettings.from_json(LAB["settings"])
    assert LabSettings.from_json(settings.to_json() | {"brightness": 3}) == settings


@pytest.mark.parametrize("targets", [("jev", "nimble"), ("nimble",)])
def test_conditions_of_a_lab_are_reported_alike_from_both_forms(targets: tuple[str, ...]) -> None:
    now = LAB | {"settings": LabSettings.from_json(LAB["settings"]).to_json()}
    cells = [cell_of(name) for name in targets]
    old, new = (
        read_conditions(stored.sweep_row(command="lab live", conditions=form), cells, ["0.1.0"], [])
        for form in (LAB, now)
    )
    assert list(old.items()) == list(new.items())
    assert new["subject"] == "decision flow"
    assert "provider" not in new
    assert new.get("variants" if len(targets) > 1 else "variant") in (list(targets), targets[0])


def cell_of(target: str) -> CellRecord:
    return CellRecord(
        id=1,
        suite_id="lab",
        suite_version="1",
        case_id="gate/case-0",
        case_version="1",
        variant=target,
        target="decision",
        model=f"{target}-1",
        fingerprint="f",
        config_hash=f"hash of {target}",
    )
