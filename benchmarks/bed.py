"""What the measured commands run in: a temporary folder, a clean environment, a suite of ten one-answer tasks."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from pathlib import Path

import attrs

from benchmarks.child import EVALCTL, PYTHON, Cost, measure
from tests.peers.driver import Endpoint, clean_environment

TASKS = 10
ANSWER = {"text": "It is done as asked.", "usage": {"input": 120, "output": 6}}


@attrs.define(kw_only=True)
class Bed:
    """One benchmark's surroundings. Every measurement gets a store of its own."""

    folder: Path
    environment: dict[str, str]
    stores: int = 0

    def store(self, name: str) -> Path:
        self.stores += 1
        folder = self.folder / f"{self.stores}-{name}"
        folder.mkdir()
        return folder / "runs.db"

    def evalctl(self, store: Path, *arguments: str) -> Cost:
        """One command on *store*, its output thrown away."""
        return measure([EVALCTL, "--store", str(store), *arguments], self.environment, cwd=self.folder)

    def run(self, store: Path, runs: int, *flags: str, concurrency: int = 100) -> Cost:
        """A sweep of *runs* runs; the rows it left are counted in the store's file."""
        assert runs % TASKS == 0 or runs < TASKS
        chosen = [] if runs % TASKS == 0 else ["--tasks", ",".join(f"task-{i}" for i in range(runs))]
        cost = self.evalctl(
            store,
            *("run", "bench", "--suite-dir", str(self.folder / "bench"), "--yes", "--quiet"),
            *("--k", str(max(1, runs // TASKS)), "--concurrency", str(concurrency), *chosen, *flags),
        )
        passed = count(store, "SELECT count(*) FROM current WHERE outcome = 'pass'")
        assert passed == runs, f"{passed} of {runs} runs are in the store"
        return cost

    def scripted(self, store: Path, runs: int) -> Cost:
        return self.run(store, runs, "--provider", "scripted")

    def against(self, store: Path, runs: int, endpoint: Endpoint, *, concurrency: int = 100) -> Cost:
        where = ("--provider", "openai", "--base-url", endpoint.url, "--model", "bench")
        return self.run(store, runs, *where, concurrency=concurrency)

    def floor(self, store: Path, runs: int, endpoint: Endpoint | None = None) -> Cost:
        """The same number of runs on the floor."""
        url = ["--url", endpoint.url] if endpoint else []
        argv = [PYTHON, "-m", "benchmarks.floor", "--store", str(store), "--runs", str(runs), "--concurrency", "100"]
        cost = measure(
            [*argv, *url], self.environment | {"PYTHONPATH": str(Path(__file__).parents[1])}, cwd=self.folder
        )
        assert count(store, "SELECT count(*) FROM event") == 4 * runs
        return cost


def make_bed(folder: Path) -> Bed:
    """Write the suite `bench`: ten tasks, one answer each, one verifier, a fixture of one file."""
    suite = folder / "bench"
    (suite / "fixtures" / "note").mkdir(parents=True)
    (suite / "scripts").mkdir()
    (folder / "tmp").mkdir()
    (suite / "fixtures" / "note" / "note.txt").write_text("hello\n", encoding="ascii")
    tasks = [
        {
            "id": f"task-{number}",
            "prompt": "Say that it is done.",
            "fixture": "fixtures/note",
            "budget": {"maxTurns": 5, "maxWallMs": 600_000},
            "policy": {"mode": "auto", "allow": []},
            "verifiers": [{"kind": "file-contains", "id": "note", "path": "note.txt", "text": "hello"}],
        }
        for number in range(TASKS)
    ]
    document = {
        "schemaVersion": 1,
        "suiteId": "bench",
        "suiteVersion": "1.0.0",
        "description": "One answer each.",
        "tasks": tasks,
    }
    (suite / "suite.json").write_text(json.dumps(document), encoding="utf-8")
    for task in tasks:
        script = {"format": "evalctl.script/1", "plays": [{"answers": [ANSWER]}]}
        (suite / "scripts" / f"{task['id']}.json").write_text(json.dumps(script), encoding="utf-8")
    return Bed(folder=folder, environment=clean_environment(folder))


def count(store: Path, sql: str) -> int:
    """One number from a store's file, read as a stranger would."""
    with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        return int(connection.execute(sql).fetchone()[0])


def file_bytes(store: Path) -> int:
    """Bytes of a closed store, its WAL copied in first."""
    with contextlib.closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return sum(
        os.path.getsize(file)  # noqa: PTH202 - of names that may not exist
        for file in (str(store), f"{store}-wal")
        if os.path.exists(file)  # noqa: PTH110 - the same
    )
