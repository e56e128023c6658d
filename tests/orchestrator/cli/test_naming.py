"""Finding a sweep and an arm by what people type: arms may have `/` in their names."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from orchestrator.cli.naming import find_single_variant, find_sweep_and_variant
from orchestrator.comparison.sides import read_sides
from orchestrator.kinds import read_report_side
from store.errors import UsageError
from store.sql.reader import Reader
from tests.orchestrator.reports import stored

ARMS = ("claude-code/sonnet/none/none", "claude-code")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    plan = stored.sweep(["a", "b"], 1)
    cells = tuple(attrs.evolve(cell, variant=arm) for cell, arm in zip(plan.cells, ARMS, strict=True))
    return stored.write(tmp_path / "arms.db", attrs.evolve(plan, cells=cells), {"a": [{}], "b": [{}]})


@pytest.mark.parametrize("arm", ARMS)
def test_an_arm_is_found_by_its_whole_name(store: Path, arm: str) -> None:
    with Reader(store) as reader:
        sweep, found = find_single_variant(reader, f"last:{arm}")
    assert (sweep.name, found) == (stored.NAME, arm)


def test_a_sweep_alone_names_no_arm(store: Path) -> None:
    with Reader(store) as reader:
        assert find_sweep_and_variant(reader, "last")[1] is None
        with pytest.raises(UsageError, match=f"Name one: {stored.NAME}:{ARMS[0]}, {stored.NAME}:{ARMS[1]}"):
            find_single_variant(reader, "last")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("last:claude-code/sonnet", "has no variant 'claude-code/sonnet'"),
        ("last:claude-code/3", "positions count over all variants of a sweep\nName the sweep alone: last"),
        ("last:", "has no variant ''"),
        ("other:claude-code", "there is no sweep 'other'"),
    ],
)
def test_an_arm_that_does_not_exist_is_one_message(store: Path, typed: str, message: str) -> None:
    with Reader(store) as reader, pytest.raises(UsageError, match=message):
        find_sweep_and_variant(reader, typed)


def test_a_side_with_a_slash_in_its_arm_is_no_file(store: Path) -> None:
    with pytest.raises(UsageError, match="has no variant 'claude-code/none'"):
        read_sides("last:claude-code/none", "last", store, read_report=read_report_side)
    with pytest.raises(UsageError, match="reports/last:claude-code: "):
        read_sides("reports/last:claude-code", "last", store, read_report=read_report_side)
