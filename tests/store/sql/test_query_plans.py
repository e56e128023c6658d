"""How SQLite goes about every statement is fixed: a change of schema or query that makes it read more shows here.

The plans are pinned on a generated store without statistics, as every store is (nothing ever runs ANALYZE): word for
word for the SQLite they were pinned with, and for every other one the tables they read and by which index. After a
deliberate change, `python -m tests.store.sql.test_query_plans` writes them anew; read the difference.
"""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from store.sql.statements import load_statement
from tests.store.sql.generate import Shape, generate
from tests.store.sql.plans import NAMES, PINNED, accesses, bare, plan, reads

WHOLE_HISTORY = {"drift_ends", "drift_drops", "summary_current", "summary_cells"}
"""Queries whose answer depends on every result ever stored."""
LARGE = "run|result|outcome|event|attempt|verdict|judgement|file_change"
"""Tables that grow with every run."""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = tmp_path_factory.mktemp("plans") / "runs.db"
    generate(path, Shape())
    with closing(sqlite3.connect(path)) as connection:
        yield connection


@pytest.mark.parametrize("name", [name for name in NAMES if reads(name)])
def test_the_plan_of_a_reading_statement_is_the_pinned_one(history: sqlite3.Connection, name: str) -> None:
    pinned = json.loads(PINNED.read_text(encoding="utf-8"))
    actual = plan(history, name)

    assert accesses(actual) == accesses(pinned["plans"][name])
    if pinned["sqlite"] == sqlite3.sqlite_version:
        assert actual == pinned["plans"][name]


@pytest.mark.parametrize("name", sorted({*NAMES} - WHOLE_HISTORY))
def test_no_statement_scans_a_table_that_grows_with_every_run(history: sqlite3.Connection, name: str) -> None:
    views = " ".join(sql for (sql,) in history.execute("SELECT sql FROM sqlite_schema WHERE type = 'view'"))
    aliases = {alias for _, alias in re.findall(rf"\b({LARGE}) (?:AS )?(\w+)", f"{bare(name)} {views}")}

    scanned = {table for verb, table, _ in accesses(plan(history, name)) if verb == "SCAN"}

    assert scanned & {*LARGE.split("|"), *aliases} == set()


def test_nothing_is_pinned_that_does_not_exist() -> None:
    assert sorted(json.loads(PINNED.read_text(encoding="utf-8"))["plans"]) == [name for name in NAMES if reads(name)]


def test_a_scan_would_be_seen(history: sqlite3.Connection) -> None:
    assert accesses(plan(history, "summary_current")) >= {("SCAN", "r", "INDEX result_series")}


def test_no_statistics_are_kept(history: sqlite3.Connection) -> None:
    assert history.execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'").fetchone() == (0,)


@pytest.mark.parametrize("name", [name for name in NAMES if reads(name)])
def test_every_reading_statement_runs(history: sqlite3.Connection, name: str) -> None:
    sql = bare(name)
    values: Any = defaultdict[str, Any](lambda: 1, attempts="[1]") if ":" in sql else (1,) * sql.count("?")

    history.execute(sql, values).fetchall()


def test_both_ways_to_sum_up_history_agree(history: sqlite3.Connection) -> None:
    def means(name: str) -> dict[tuple[int, int], float]:
        return {(cell, judged): composite for cell, judged, composite in history.execute(load_statement(name))}

    assert means("summary_cells") == pytest.approx(means("summary_current"))


def write_pinned() -> None:
    """Write the plans as they are now."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder) / "runs.db", Shape())
        with closing(sqlite3.connect(Path(folder) / "runs.db")) as connection:
            plans = {name: plan(connection, name) for name in NAMES if reads(name)}
    pinned = {"sqlite": sqlite3.sqlite_version, "plans": plans}
    PINNED.write_text(json.dumps(pinned, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_pinned()
