"""Goals 12, 13 and 14: the store's own path, fed without waiting, and what it keeps when it is killed.

    python -m benchmarks.storing bare|append|encode --store FILE --rows N   one measurement
    python -m benchmarks.storing acknowledge --store FILE                   until killed, prints what is durable

A measurement prints one JSON object. CPU is that of the whole process between the first row and the last commit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sqlite3
import struct
import subprocess
import sys
import time  # noqa: TID251 - CPU time is what is measured
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import attrs

from benchmarks.child import PYTHON, ROOT
from store.events import ToolCompleted
from store.rows import CellRow, Claim, Ending, NewSweep, PlannedRun, WorkerRow
from store.secrets.redactor import Redactor
from store.sql.claims import SqliteClaims
from store.sql.database import open_database
from store.sql.leases import register_worker
from store.sql.ledger import SqliteLedger
from store.sql.plans import store_plan
from store.sql.turnstile import Turnstile
from store.sql.writer import Writer

ATTEMPTS = 100
BATCH = 1_000
OUTPUT = "ok: 3 passed, 0 failed in 0.02 s; see the log for what was skipped and why"
INSERT = "INSERT INTO event (attempt_id, seq, at, kind, payload) VALUES (?, ?, ?, ?, ?)"
BARE = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
CREATE TABLE event (attempt_id INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL,
  payload TEXT NOT NULL, blob_id INTEGER, PRIMARY KEY (attempt_id, seq)) STRICT, WITHOUT ROWID;
"""


@attrs.frozen(kw_only=True)
class Open:
    """A store with a sweep, a worker and claimed attempts, ready to be written to."""

    writer: Writer
    sweep_id: int
    worker_id: int
    claims: list[Claim]


def wall() -> int:
    return time.time_ns() // 1000


def sweep(runs: int) -> NewSweep:
    cell = CellRow(
        digest=b"\0" * 32,
        fingerprint="0" * 64,
        fingerprint_version=1,
        config_hash="0" * 64,
        suite_id="bench",
        suite_version="1.0.0",
        case_id="task",
        case_version="1",
        variant="",
        target="builtin",
        model="bench",
        document="{}",
    )
    return NewSweep(
        name="bench-00000000",
        command="bench",
        suite_id="bench",
        mode="live",
        seed=0,
        repetitions=runs,
        planned_at=wall(),
        conditions={},
        cells=(cell,),
        runs=tuple(PlannedRun(position=i, cell=0, repetition=i, pair=i) for i in range(runs)),
    )


@contextlib.asynccontextmanager
async def opened(store: Path, runs: int) -> AsyncIterator[Open]:
    """Open, plan and claim. The WAL is never copied in, so that its frames tell every commit."""
    turnstile = Turnstile(store, report=print)
    async with open_database(store, turnstile) as database:
        writer = Writer(database, checkpoint_bytes=1 << 62)
        async with anyio.create_task_group() as group:
            group.start_soon(writer.run)
            try:
                sweep_id = await writer.submit_and_wait(store_plan(sweep(runs)))
                me = WorkerRow(host="bench", pid=os.getpid(), boot="", born=0, version="0", started_at=wall())
                worker_id = await writer.submit_and_wait(register_worker(me, wall() + 3_600_000_000))
                claims = SqliteClaims(
                    writer,
                    sweep_id=sweep_id,
                    worker_id=worker_id,
                    wall=wall,
                    lease_us=3_600_000_000,
                    is_alive=lambda _: True,
                )
                held: list[Claim] = []
                while more := await claims.claim_runs(runs):
                    held += more
                yield Open(writer=writer, sweep_id=sweep_id, worker_id=worker_id, claims=held)
            finally:
                writer.close()


def ledger_of(store: Open, acknowledged: Any) -> SqliteLedger:
    return SqliteLedger(
        store.writer,
        Redactor(()),
        sweep_id=store.sweep_id,
        worker_id=store.worker_id,
        wall=wall,
        monotonic=time.monotonic,
        on_acknowledged=acknowledged,
    )


def commits(store: Path) -> int:
    """Transactions in the WAL, read from its frames: the last frame of each carries the database's size."""
    data = Path(f"{store}-wal").read_bytes()
    page = struct.unpack(">I", data[8:12])[0]
    salt = data[16:24]
    found = 0
    for at in range(32, len(data) - page, page + 24):
        size, frame_salt = struct.unpack(">I", data[at + 4 : at + 8])[0], data[at + 8 : at + 16]
        found += frame_salt == salt and size != 0
    return found


Rows = list[tuple[int, int, int, str, str]]


def ready_rows(ids: list[int], rows: int) -> list[Rows]:
    """Rows in batches, their JSON ready. The attempts take turns in runs of ten, as attempts that work at once do."""
    made = []
    for i in range(rows):
        turn, step = divmod(i, 10 * len(ids))
        value = {"id": f"call-{i}", "name": "bash", "is_error": False, "output": OUTPUT, "ms": i % 97}
        text = json.dumps(value, separators=(",", ":"))
        made.append((ids[step // 10], turn * 10 + step % 10, i, "tool_completed", text))
    return [made[start : start + BATCH] for start in range(0, rows, BATCH)]


def bare(store: Path, rows: int) -> dict[str, Any]:
    """sqlite3 alone: the same rows in the same batches, no guards."""
    batches = ready_rows(list(range(ATTEMPTS)), rows)
    with contextlib.closing(sqlite3.connect(store)) as connection:
        connection.executescript(BARE)
        begun = time.process_time()
        for batch in batches:
            with connection:
                connection.executemany(INSERT, batch)
        return {"cpu_s": time.process_time() - begun}


def insert(batch: Rows, connection: sqlite3.Connection) -> None:
    connection.executemany(INSERT, batch)


async def append(store: Path, rows: int) -> dict[str, Any]:
    """Rows whose JSON is ready, through the writer, in jobs of a thousand."""
    async with opened(store, ATTEMPTS) as ready:
        batches = ready_rows([claim.attempt_id for claim in ready.claims], rows)
        begun = time.process_time()
        for batch in batches:
            ready.writer.submit(partial(insert, batch), rows=BATCH)
        await ready.writer.submit_and_wait(lambda _: None)
        return {"cpu_s": time.process_time() - begun}


async def encode(store: Path, rows: int) -> dict[str, Any]:
    """Events through the ledger: encoded, guarded, indexed; offered without one wait."""
    async with opened(store, ATTEMPTS) as ready:
        ledger = ledger_of(ready, lambda *_: None)
        before = commits(store)
        synchronous = await ready.writer.submit_and_wait(lambda c: c.execute("PRAGMA synchronous").fetchone()[0])
        begun = time.process_time()
        for i in range(rows):
            log = ledger.open_log(ready.claims[i % ATTEMPTS])
            log.append_event(ToolCompleted(id=f"call-{i}", name="bash", is_error=False, output=OUTPUT, ms=i % 97))
        await ready.writer.submit_and_wait(lambda _: None)
        cpu_s = time.process_time() - begun
        return {"cpu_s": cpu_s, "commits": commits(store) - before, "synchronous": synchronous}


async def acknowledge(store: Path) -> None:
    """End attempts and print each id once it is acknowledged, until killed."""
    async with opened(store, 20_000) as ready:

        def tell(ending: Ending, counts: bool) -> None:
            assert counts
            os.write(1, f"{ending.claim.attempt_id}\n".encode())

        ledger = ledger_of(ready, tell)
        for claim in ready.claims:
            ledger.finish_attempt(
                Ending(claim=claim, outcome="pass", judged=True, again=False, composite=1.0, ended_at=wall())
            )
            await anyio.lowlevel.checkpoint()
        await anyio.sleep_forever()


# --- what bench.py calls ----------------------------------------------------------------------------------------


def measured(what: str, store: Path, rows: int, environment: Mapping[str, str]) -> dict[str, Any]:
    """One measurement in a process of its own; rows are counted in the file."""
    argv = [PYTHON, "-m", "benchmarks.storing", what, "--store", str(store), "--rows", str(rows)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=ROOT, env=dict(environment))
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    with contextlib.closing(sqlite3.connect(store)) as connection:
        kept = connection.execute("SELECT count(*) FROM event").fetchone()[0]
    assert kept == rows, f"{kept} of {rows} rows are in the store"
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def survived_kill(store: Path, environment: Mapping[str, str], *, after: int = 500) -> tuple[int, int]:
    """Kill -9 a writer after *after* acknowledgements: (acknowledged, of these in the store)."""
    argv = [PYTHON, "-m", "benchmarks.storing", "acknowledge", "--store", str(store)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=ROOT, env=dict(environment)) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(after)]
        process.send_signal(signal.SIGKILL)
        told += [int(line) for line in process.stdout.read().split(b"\n")[:-1]]
        process.wait()
    with contextlib.closing(sqlite3.connect(store)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        kept = {row[0] for row in connection.execute("SELECT attempt_id FROM outcome")}
    return len(told), len(kept & set(told))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storing")
    parser.add_argument("what", choices=["bare", "append", "encode", "acknowledge"])
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=100_000)
    options = parser.parse_args()
    if options.what == "acknowledge":
        anyio.run(acknowledge, options.store)
    elif options.what == "bare":
        sys.stdout.write(json.dumps(bare(options.store, options.rows)))
    else:
        measure = append if options.what == "append" else encode
        sys.stdout.write(json.dumps(anyio.run(measure, options.store, options.rows)))


if __name__ == "__main__":
    main()
