"""What the tests of the store's writing half share: an open store, a small plan, and this process as a worker."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import attrs

from orchestrator.world import is_alive, this_worker
from store.measurements import Measurements
from store.rows import CellRow, Claim, Ending, NewSweep, Outcome, PlannedRun, WorkerRow
from store.secrets.redactor import Redactor
from store.sql.claims import RerunPolicy, SqliteClaims
from store.sql.database import open_database
from store.sql.leases import register_worker
from store.sql.ledger import SqliteLedger
from store.sql.plans import store_plan
from store.sql.turnstile import Turnstile
from store.sql.writer import Writer

FAR = 10**18
"""A lease that does not expire."""


@asynccontextmanager
async def writing(path: Path, **options: Any) -> AsyncIterator[Writer]:
    """An open store with its writer running; closed and drained at the end."""
    async with open_database(path, Turnstile(path, report=print)) as database:
        writer = Writer(database, **options)
        async with anyio.create_task_group() as outermost:
            outermost.start_soon(writer.run)
            try:
                yield writer
            finally:
                writer.close()


def sweep(cases: int = 2, variants: int = 1, repetitions: int = 2, name: str = "sweep-00000001") -> NewSweep:
    """A plan: every pair group holds the variants of one case and repetition."""
    cells = tuple(
        CellRow(
            digest=f"{case}/{variant}".encode().ljust(32, b"."),
            fingerprint=f"f{case}{variant}",
            fingerprint_version=1,
            config_hash="c",
            suite_id="suite",
            suite_version="1.0.0",
            case_id=f"case-{case}",
            case_version="1",
            variant=f"v{variant}",
            target="agent",
            model="m",
            document="{}",
        )
        for case in range(cases)
        for variant in range(variants)
    )
    groups = itertools.product(range(repetitions), range(cases))
    runs = tuple(
        PlannedRun(position=pair * variants + variant, cell=case * variants + variant, repetition=repetition, pair=pair)
        for pair, (repetition, case) in enumerate(groups)
        for variant in range(variants)
    )
    return NewSweep(
        name=name,
        command="run",
        suite_id="suite",
        mode="live",
        seed=0,
        repetitions=repetitions,
        planned_at=1,
        conditions={},
        cells=cells,
        runs=runs,
    )


@attrs.define(kw_only=True)
class Part:
    """One process's part in a sweep; several may share one store, each with a writer of its own or not."""

    writer: Writer
    sweep_id: int
    worker_id: int
    claims: SqliteClaims
    ledger: SqliteLedger
    acknowledged: list[tuple[Ending, bool]]
    now: list[int]
    """The wall clock, one entry, in microseconds: a test moves it."""


async def take_part(
    writer: Writer,
    *,
    plan: NewSweep | None = None,
    sweep_id: int | None = None,
    worker: WorkerRow | None = None,
    expires_at: int = FAR,
    redactor: Redactor | None = None,
    alive: Callable[[WorkerRow], bool | None] = is_alive,
    running: Callable[[WorkerRow], bool] = lambda _: False,
    lease_us: int = 1_000_000,
    monotonic: Callable[[], float] | None = None,
    **policy: bool,
) -> Part:
    """Store a plan (or join a stored one) and register as a worker."""
    if sweep_id is None:
        sweep_id = await writer.submit_and_wait(store_plan(plan or sweep()))
    worker_id = await writer.submit_and_wait(register_worker(worker or this_worker("test", 1), expires_at))
    acknowledged: list[tuple[Ending, bool]] = []
    now = [1_000_000]
    ledger = SqliteLedger(
        writer,
        redactor or Redactor([]),
        sweep_id=sweep_id,
        worker_id=worker_id,
        wall=lambda: now[0],
        monotonic=anyio.current_time,
        on_acknowledged=lambda ending, accepted: acknowledged.append((ending, accepted)),
    )
    claims = SqliteClaims(
        writer,
        sweep_id=sweep_id,
        worker_id=worker_id,
        wall=lambda: now[0],
        monotonic=monotonic,
        lease_us=lease_us,
        is_alive=alive,
        is_running=running,
        rerun=RerunPolicy(**policy),
    )
    return Part(
        writer=writer,
        sweep_id=sweep_id,
        worker_id=worker_id,
        claims=claims,
        ledger=ledger,
        acknowledged=acknowledged,
        now=now,
    )


def ending(claim: Claim, outcome: Outcome = "pass", **fields: Any) -> Ending:
    """How an attempt ended; a pass unless said otherwise."""
    if outcome in ("error", "skipped", "budget_exceeded"):
        fields.setdefault("reason", "interrupted")
    fields.setdefault("judged", outcome in ("pass", "fail"))
    fields.setdefault("again", outcome == "error")
    measured = Measurements.take_from(fields)
    return Ending(claim=claim, outcome=outcome, ended_at=fields.pop("ended_at", 2_000_000), measured=measured, **fields)


async def durable(writer: Writer) -> None:
    """Return once everything offered so far is committed and acknowledged."""
    await writer.submit_and_wait(lambda _connection: None)


def ask(path: Path, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Query the store from outside, as any other program would."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql, parameters).fetchall()
