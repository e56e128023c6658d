"""The list of measurements is the list of columns."""

import re

import pytest

from store.measurements import MEASUREMENT_COLUMNS, Measurements
from store.sql.statements import load_migrations, load_statement


@pytest.mark.parametrize("name", ["insert_outcome", "read_runs"])
def test_a_statement_names_every_figure(name: str) -> None:
    assert set(MEASUREMENT_COLUMNS) <= set(re.findall(r"\w+", load_statement(name)))


def test_every_figure_is_a_column() -> None:
    schema = "\n".join(text for texts in load_migrations().values() for text in texts)
    outcome = schema.partition("CREATE TABLE outcome")[2].partition(";")[0]
    assert set(MEASUREMENT_COLUMNS) <= set(re.findall(r"\w+", outcome))


def test_figures_go_to_columns_and_come_back() -> None:
    measured = Measurements(wall_ms=5, cost_source="prices")
    row = {"position": 1, **measured.to_columns()}
    assert Measurements.take_from(row) == measured
    assert row == {"position": 1}
