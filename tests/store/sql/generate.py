"""Makes stores of any size through plain SQL, the same ones for the same seed.

Shaped like a long-kept history: nightly sweeps over the same cells, of which the last one is half done; two runs in a
hundred were retried, one in a hundred judged again.
"""

from __future__ import annotations

import hashlib
import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs

from store.sql.database import APPLICATION_ID, SCHEMA_VERSION, split_statements
from store.sql.statements import load_migrations, load_statement

NIGHT_US = 86_400_000_000
FIRST_US = 1_767_225_600_000_000
"""The first night: 2026-01-01 UTC."""


@attrs.frozen(kw_only=True)
class Shape:
    """How large a store is."""

    cases: int = 6
    variants: int = 2
    repetitions: int = 3
    sweeps: int = 4
    events: int = 4
    """Events of each attempt."""

    @property
    def runs_per_sweep(self) -> int:
        return self.cases * self.variants * self.repetitions


def create(path: Path, *, guards: bool = True) -> sqlite3.Connection:
    """A new, empty store of the current schema, open for plain SQL."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")
    for text in load_migrations()[SCHEMA_VERSION]:
        if guards or not text.startswith("-- Guards"):
            execute_all(connection, text)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    return connection


def execute_all(connection: sqlite3.Connection, text: str) -> None:
    for sql in split_statements(text):
        connection.execute(sql)


def insert(connection: sqlite3.Connection, table: str, **values: Any) -> int:
    """Insert one row; its id."""
    columns = ", ".join(values)
    marks = ", ".join(f":{name}" for name in values)
    cursor = connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", values)
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def generate(path: Path, shape: Shape, *, seed: int = 0) -> None:
    """Make the store at *path*."""
    rng = random.Random(seed)
    # Loading is not what is measured, and the finished file is the same: the guards come last.
    with closing(create(path, guards=False)) as connection:
        connection.execute("BEGIN")
        _cells(connection, shape)
        worker = insert(connection, "worker", host="night", pid=1, boot="b", born=1, version="0", started_at=FIRST_US)
        insert(connection, "lease", worker_id=worker, expires_at=FIRST_US)
        connection.execute("COMMIT")
        ids = _Ids()
        for night in range(shape.sweeps):
            connection.execute("BEGIN")
            _sweep(connection, shape, night, worker=worker, rng=rng, ids=ids)
            connection.execute("COMMIT")
        (guards,) = (text for text in load_migrations()[SCHEMA_VERSION] if text.startswith("-- Guards"))
        execute_all(connection, guards)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@attrs.define
class _Ids:
    attempt: int = 0
    result: int = 0


def _cells(connection: sqlite3.Connection, shape: Shape) -> None:
    for case in range(shape.cases):
        for variant in range(shape.variants):
            document = json.dumps({"case": case, "variant": variant})
            fingerprint = hashlib.sha256(document.encode()).hexdigest()
            insert(
                connection,
                "cell",
                digest=hashlib.sha256(b"cell" + document.encode()).digest(),
                fingerprint=fingerprint,
                fingerprint_version=1,
                config_hash="c" * 64,
                suite_id="suite-a",
                suite_version="1.0.0",
                case_id=f"case-{case:04}",
                case_version="1",
                variant=f"v{variant}",
                target="built-in",
                model="model-1",
                document=document,
            )


def _sweep(
    connection: sqlite3.Connection, shape: Shape, night: int, *, worker: int, rng: random.Random, ids: _Ids
) -> None:
    at = FIRST_US + night * NIGHT_US
    sweep = insert(
        connection,
        "sweep",
        name=f"{night:05}-night-{rng.randrange(16**8):08x}",
        command="run",
        suite_id="suite-a",
        mode="live",
        seed=0,
        repetitions=shape.repetitions,
        planned_at=at,
        runs=shape.runs_per_sweep,
        conditions="{}",
    )
    cells = shape.cases * shape.variants
    first = night * shape.runs_per_sweep + 1
    planned = [
        (first + n, sweep, n, n % cells + 1, n // cells, n // shape.variants) for n in range(shape.runs_per_sweep)
    ]
    connection.executemany(
        "INSERT INTO run (id, sweep_id, position, cell_id, repetition, pair) VALUES (?, ?, ?, ?, ?, ?)", planned
    )
    done = shape.runs_per_sweep if night < shape.sweeps - 1 else shape.runs_per_sweep // 2
    rows = _Rows()
    for run, _, position, cell, _, _ in planned[:done]:
        begin = at + position * 1_000_000
        _attempts(rows, ids, run=run, sweep=sweep, cell=cell, worker=worker, at=begin, events=shape.events, rng=rng)
    rows.write(connection)
    insert(
        connection,
        "spend",
        sweep_id=sweep,
        seq=1,
        worker_id=worker,
        kind="grant",
        calls=done,
        tokens=done * 1000,
        nusd=0,
        total_calls=done,
        total_tokens=done * 1000,
        total_nusd=0,
        at=at,
    )
    insert(connection, "notice", sweep_id=sweep, worker_id=worker, at=at, kind="started", payload="{}")


@attrs.define
class _Rows:
    attempts: list[tuple[Any, ...]] = attrs.field(factory=list)
    events: list[tuple[Any, ...]] = attrs.field(factory=list)
    outcomes: list[dict[str, Any]] = attrs.field(factory=list)
    verdicts: list[tuple[Any, ...]] = attrs.field(factory=list)
    results: list[tuple[Any, ...]] = attrs.field(factory=list)

    def write(self, connection: sqlite3.Connection) -> None:
        connection.executemany(
            "INSERT INTO attempt (id, run_id, number, worker_id, claimed_at) VALUES (?, ?, ?, ?, ?)", self.attempts
        )
        connection.executemany(load_statement("insert_event"), self.events)
        connection.executemany(load_statement("insert_outcome"), self.outcomes)
        connection.executemany(load_statement("insert_verdict"), self.verdicts)
        connection.executemany(
            "INSERT INTO result (id, run_id, attempt_id, supersedes, sweep_id, cell_id, outcome, reason, judged, again,"
            " composite, at, basis) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            self.results,
        )


def _attempts(
    rows: _Rows,
    ids: _Ids,
    *,
    run: int,
    sweep: int,
    cell: int,
    worker: int,
    at: int,
    events: int,
    rng: random.Random,
) -> None:
    endings: list[tuple[str, str | None]] = [("error", "provider")] if rng.random() < 0.02 else []
    endings.append(("pass", None) if rng.random() < 0.4 + 0.5 * (cell % 7) / 7 else ("fail", None))
    before = None
    for number, (outcome, reason) in enumerate(endings, start=1):
        ids.attempt += 1
        ids.result += 1
        attempt = ids.attempt
        rows.attempts.append((attempt, run, number, worker, at))
        rows.events += _events(attempt, events, rng)
        rows.outcomes.append(_outcome(attempt, run, outcome, reason, at=at, more_ms=rng.randrange(2000)))
        judged = outcome != "error"
        if judged:
            detail = '{"exit":0}' if outcome == "pass" else '{"exit":1}'
            rows.verdicts.append((attempt, "check", "command", outcome, None, detail))
        composite = float(outcome == "pass") if judged else None
        basis = "run" if before is None else "retry"
        rows.results.append(
            (ids.result, run, attempt, before, sweep, cell, outcome, reason, judged, 0, composite, at, basis)
        )
        before = ids.result
    if rng.random() < 0.01:
        ids.result += 1
        rows.results.append((ids.result, run, ids.attempt, before, sweep, cell, "fail", None, 1, 0, 0.0, at, "rejudge"))


def _events(attempt: int, count: int, rng: random.Random) -> Iterator[tuple[Any, ...]]:
    for seq in range(1, count + 1):
        payload = json.dumps({"request": seq, "text": "x" * (90 + rng.randrange(20)), "chunks": [[0, 50], [40, 50]]})
        yield attempt, seq, seq * 40, "text", payload, None


def _outcome(attempt: int, run: int, outcome: str, reason: str | None, *, at: int, more_ms: int) -> dict[str, Any]:
    return {
        "attempt_id": attempt,
        "run_id": run,
        "outcome": outcome,
        "reason": reason,
        "started_at": at,
        "ended_at": at + 5_000_000,
        "wall_ms": 4000 + more_ms,
        "waited_ms": 0,
        "turns": 3,
        "tool_calls": 2,
        "calls": 3,
        "input_tokens": 900,
        "output_tokens": 100,
        "cached_tokens": None,
        "cache_write_tokens": None,
        "reasoning_tokens": None,
        "cost_nusd": 1_000_000,
        "cost_source": "table",
        "model_resolved": "model-1",
        "decision_status": None,
        "detail": '{"spent":{"calls":3,"tokens":1000}}',
    }
