"""A store with one sweep in it, written by the store's own writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import anyio

from store.events import Event
from store.measurements import Measurements
from store.rows import CellRow, Claim, Ending, NewSweep, PlannedRun, SweepRow, WorkerRow
from store.secrets.redactor import Redactor
from store.sql.claims import SqliteClaims
from store.sql.database import open_database
from store.sql.leases import end_lease, register_worker
from store.sql.ledger import SqliteLedger
from store.sql.plans import store_plan
from store.sql.turnstile import Turnstile
from store.sql.writer import Writer

NAME = "20200101T000000Z-00000abc"
AT = 1_577_836_800_000_000
"""2020-01-01T00:00:00Z: no lease of that time holds today, whatever the machine thinks today is."""

Outcomes = Mapping[str, Sequence[Mapping[str, Any] | None]]
"""Case, or `case:variant` -> for each repetition what its ending says beside the usual; None leaves the run without
one.
"""

SETTINGS = {
    "provider": "scripted",
    "base_url": "https://me:hunter2@models.example:8443/v1/private",
    "concurrency": 4,
    "grants": {"effects": ["process", "write"], "read_only": False, "suite_full": False},
    "caps": {"calls": 100, "tokens": None, "nusd": None},
    "max_wall_s": None,
    "input_rate": None,
    "output_rate": None,
}


def sweep_row(**columns: Any) -> SweepRow:
    """A live sweep of one run as it is read from the store, but for *columns*."""
    usual: dict[str, Any] = {
        "id": 1,
        "name": NAME,
        "command": "run",
        "purpose": "sweep",
        "suite_id": "shapes",
        "mode": "live",
        "seed": 0,
        "repetitions": 1,
        "planned_at": 0,
        "runs": 1,
        "conditions": {},
    }
    return SweepRow(**usual | columns)


def sweep(
    cases: Sequence[str],
    k: int,
    *,
    mode: Literal["live", "replay", "offline"] = "live",
    settings: Mapping[str, Any] | None = None,
) -> NewSweep:
    cells = tuple(
        CellRow(
            digest=f"{case}-{mode}".encode().ljust(32)[:32],
            fingerprint=f"f-{case}",
            fingerprint_version=1,
            config_hash="c0ffee",
            suite_id="shapes",
            suite_version="1.2.0",
            case_id=case,
            case_version="1.2.0",
            variant="",
            target="agent",
            model="m-1",
            document="{}",
        )
        for case in cases
    )
    runs = tuple(
        PlannedRun(position=r * len(cases) + c + 1, cell=c, repetition=r, pair=r * len(cases) + c)
        for r in range(k)
        for c in range(len(cases))
    )
    return NewSweep(
        name=NAME,
        command="run",
        suite_id="shapes",
        mode=mode,
        seed=7,
        repetitions=k,
        planned_at=AT,
        conditions={
            "harnessVersion": "0.0.9",
            "settings": {**SETTINGS, **(settings or {})},
            "suite": {"root": "/home/me/suites/shapes", "content": {"suite.json": "0" * 64}},
            "git": {"commit": "abc", "dirty": False},
        },
        cells=cells,
        runs=runs,
    )


def ending(claim: Claim, **said: Any) -> Ending:
    outcome = said.get("outcome", "pass")
    usual = {
        "outcome": outcome,
        "judged": outcome in ("pass", "fail", "budget_exceeded"),
        "again": False,
        "composite": {"pass": 1.0, "fail": 0.0, "budget_exceeded": 0.0}.get(outcome),
        "started_at": AT + 1000,
        "ended_at": AT + 2_000_000,
        "wall_ms": 1000 + 100 * claim.repetition,
        "waited_ms": 5,
        "turns": 2,
        "tool_calls": 1,
        "calls": 2,
        "input_tokens": 100,
        "output_tokens": 20,
        "model_resolved": "m-1-2026",
        "detail": {"spent": {"calls": 3, "tokens": 150}},
    }
    fields = usual | said
    return Ending(claim=claim, measured=Measurements.take_from(fields), **fields)


def write(
    path: Path,
    planned: NewSweep,
    outcomes: Outcomes,
    events: Callable[[Claim], Sequence[Event]] = lambda _: (),
    *,
    leaving: bool = True,
) -> Path:
    """Make the store; claims stay open where the outcome is None. The worker leaves unless told otherwise."""
    anyio.run(_write, path, planned, outcomes, events, leaving)
    return path


async def _write(path: Path, planned: NewSweep, outcomes: Outcomes, events: Any, leaving: bool) -> None:
    turnstile = Turnstile(path, report=lambda _: None)
    async with open_database(path, turnstile) as database:
        writer = Writer(database)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer.run)
            try:
                await _fill(writer, planned, outcomes, events, leaving)
            finally:
                writer.close()


async def _fill(writer: Writer, planned: NewSweep, outcomes: Outcomes, events: Any, leaving: bool) -> None:
    sweep_id = await writer.submit_and_wait(store_plan(planned))
    me = WorkerRow(host="here", pid=1, boot="b", born=1, version="0.1.0", started_at=AT)
    worker_id = await writer.submit_and_wait(register_worker(me, AT + 60_000_000))
    wall = lambda: AT  # noqa: E731 - a clock that stands still
    claims = SqliteClaims(
        writer, sweep_id=sweep_id, worker_id=worker_id, wall=wall, lease_us=60_000_000, is_alive=lambda _: True
    )
    ledger = SqliteLedger(
        writer,
        Redactor([]),
        sweep_id=sweep_id,
        worker_id=worker_id,
        wall=wall,
        monotonic=lambda: 0.0,
        on_acknowledged=lambda *_: None,
    )
    while batch := await claims.claim_runs(50):
        for claim in batch:
            named = f"{claim.case_id}:{claim.variant}"
            said = outcomes[named if named in outcomes else claim.case_id][claim.repetition]
            for event in events(claim):
                ledger.open_log(claim).append_event(event)
            if said is not None:
                ledger.finish_attempt(ending(claim, **said))
    if leaving:
        await writer.submit_and_wait(end_lease(worker_id))
