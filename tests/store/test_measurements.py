"""The list of measurements is the list of columns."""

import re

import pytest

from store.measurements import COLUMNS, Measurements
from store.sql.statements import migrations, statement


@pytest.mark.parametrize("name", ["insert_outcome", "read_runs"])
def test_a_statement_names_every_figure(name: str) -> None:
    assert set(COLUMNS) <= set(re.findall(r"\w+", statement(name)))


def test_every_figure_is_a_column() -> None:
    schema = "\n".join(text for texts in migrations().values() for text in texts)
    outcome = schema.partition("CREATE TABLE outcome")[2].partition(";")[0]
    assert set(COLUMNS) <= set(re.findall(r"\w+", outcome))


def test_figures_go_to_columns_and_come_back() -> None:
    measured = Measurements(wall_ms=5, cost_source="prices")
    row = {"position": 1, **measured.to_columns()}
    assert Measurements.take_from(row) == measured
    assert row == {"position": 1}
