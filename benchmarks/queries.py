"""The store's queries on a long history: CPU per query beside what was measured when the schema was drawn up.

    python -m benchmarks.queries [--runs 1000000] [--events 10] [--store FILE]

Generates a store of that size in a temporary folder (a million runs with their ten million events: 2.3 GB and several
minutes), asks every query of a report, of drift and of comparisons, and checks that SQLite goes about each as it does
on a small store. `--store` names a file to keep: it is generated where there is none, else used as it is.
"""

from __future__ import annotations

import argparse
import json
import resource
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from store.sql.reader import Reader
from store.sql.statements import load_statement
from tests.store.sql.generate import Shape, generate
from tests.store.sql.plans import PINNED, accesses, plan

NIGHTLY = Shape(cases=200, variants=5, repetitions=5)


@attrs.frozen
class Query:
    """A named statement, its parameters, and the milliseconds it took on a million runs at the time."""

    what: str
    name: str
    reference_ms: float | None
    values: dict[str, Any]


def queries(connection: sqlite3.Connection) -> list[Query]:
    """What is asked of a history; the sweep in the middle is whole, the last one half done."""
    (last,) = connection.execute("SELECT max(id) FROM sweep").fetchone()
    (fingerprint,) = connection.execute("SELECT fingerprint FROM cell WHERE id = 7").fetchone()
    (run,) = connection.execute("SELECT max(run_id) / 2 FROM result").fetchone()
    middle = max(1, last * 3 // 4)
    now = {"result": 2**62, "attempt": 2**62, "sweep": middle}
    nobody = {"errors": 0, "cancelled": 0, "high": 0, "worker": 0, "now": 0, "position": 0, "sweep": last}
    lineage = {"fingerprint": fingerprint, "limit": 50}
    return [
        Query("resume set, half done", "read_unfinished", 2.0, {"sweep": last}),
        Query("claim, all that is free", "claim_free_runs", None, nobody),
        Query("status", "read_tally", 1.5, now),
        Query("remaining", "read_remaining", None, {**now, "sweep": last}),
        Query("spent", "read_spent", None, {**now, "variant": None}),
        Query("report per cell", "report_cells", 4.3, now),
        Query("drift of one lineage", "drift_series", 1.0, lineage),
        Query("last 50 of one lineage", "drift_last", 0.03, lineage),
        Query("ends of every lineage", "drift_ends", 1.5, {}),
        Query("drops, over everything", "drift_drops", 675, {}),
        Query("lift of two variants", "lift_variants", 151, {"suite": "suite-a", "candidate": "v1", "baseline": "v0"}),
        Query("compare, one side", "compare_cells", None, {**now, "cell": 0, "cells": None, "limit": 2**60}),
        Query("summary, through the view", "summary_current", 247, {}),
        Query("summary, minus superseded", "summary_cells", 97, {}),
        Query("transcript of one run", "read_transcript", 0.01, {"run": run}),
    ]


def fetch_rows(connection: sqlite3.Connection, sql: str, values: Mapping[str, object]) -> list[tuple[object, ...]]:
    """All rows of a query."""
    return connection.execute(sql, values).fetchall()


def cpu_ms(work: Callable[[], object], times: int = 3) -> float:
    """The best of some tries, user and system time of this process."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return (usage.ru_utime + usage.ru_stime) * 1000

    best = float("inf")
    for _ in range(times):
        # what is quicker than the clock's tick is done often enough to be seen
        repeat = 1
        while True:
            before = used()
            for _ in range(repeat):
                work()
            took = used() - before
            if took >= 10 or repeat >= 1000:
                break
            repeat *= 10
        best = min(best, took / repeat)
    return best


def strayed(connection: sqlite3.Connection) -> list[str]:
    """Statements that SQLite goes about otherwise than pinned."""
    pinned = json.loads(PINNED.read_text(encoding="utf-8"))["plans"]
    return [name for name, lines in pinned.items() if accesses(plan(connection, name)) != accesses(lines)]


def measure(path: Path) -> list[str]:
    """Print the table; the names of statements whose plans have strayed."""
    with closing(sqlite3.connect(path)) as connection:
        runs, results = connection.execute(
            "SELECT (SELECT count(*) FROM run), (SELECT count(*) FROM result)"
        ).fetchone()
        print(
            f"{runs:,} runs, {results:,} results, {path.stat().st_size / 1e9:.2f} GB, SQLite {sqlite3.sqlite_version}"
        )
        print(f"{'query':<28}{'rows':>9}{'CPU ms':>10}{'was':>10}")
        for query in queries(connection):
            sql = load_statement(query.name)
            rows = len(connection.execute(sql, query.values).fetchall())
            took = cpu_ms(partial(fetch_rows, connection, sql, query.values))
            reference = "" if query.reference_ms is None else f"{query.reference_ms:,g}"
            print(f"{query.what:<28}{rows:>9,}{took:>10,.2f}{reference:>10}")
        wrong = strayed(connection)
    with Reader(path) as reader:
        sweep = reader.find_sweep("last")
        took = cpu_ms(lambda: sum(1 for _ in reader.iterate_runs(sweep.id)), times=2)
        print(f"{'runs with verdicts, decoded':<28}{sweep.runs:>9,}{took:>10,.2f}")
    return wrong


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queries")
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=10, help="events of each attempt")
    parser.add_argument("--store", type=Path, help="a generated store to keep")
    options = parser.parse_args(arguments)
    shape = attrs.evolve(NIGHTLY, sweeps=max(2, options.runs // NIGHTLY.runs_per_sweep), events=options.events)
    with tempfile.TemporaryDirectory(prefix="evalctl-queries-") as folder:
        path = options.store or Path(folder) / "runs.db"
        if not path.exists():
            took = cpu_ms(lambda: generate(path, shape), times=1)
            print(f"generated in {took / 1000:.1f} CPU s")
        wrong = measure(path)
    for name in wrong:
        print(f"the plan of {name} is not the pinned one", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
