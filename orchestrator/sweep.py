"""A sweep from plan to last result: opens the store, claims, executes, and leaves everything accounted for.

Lifetimes are nested: the store's writer is in the outermost task group and ends last, so that nothing measured is
lost however the inside ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import attrs

from orchestrator.control import Control, Why
from orchestrator.dispatch import Dispatch
from orchestrator.execute import Executor, skipped
from orchestrator.gate import Gate, Permits
from orchestrator.governor import Governor
from orchestrator.log import Log, silent
from orchestrator.plan import plan
from orchestrator.progress import Progress, bar, heartbeat
from orchestrator.provenance import provenance
from orchestrator.retry import RetryPolicy
from orchestrator.settings import Settings
from orchestrator.suite import Suite, Task
from orchestrator.version import __version__
from orchestrator.workspaces.fixture import Fixtures
from orchestrator.workspaces.scratch import remove_abandoned, scratch
from orchestrator.world import World, is_alive, sweep_name, this_worker, who
from providers.agent.loop import BuiltinAgent
from providers.base import Provider
from providers.process import sweep_marker
from store.claims import SqliteClaims
from store.controls import tell
from store.database import open_database
from store.errors import EvalctlError, UsageError
from store.events import Json
from store.grants import SqliteBudget
from store.leases import leave, living, register, renew
from store.ledger import SqliteLedger
from store.plans import store_plan
from store.reader import Reader
from store.records import Tally
from store.rows import Claim, Ending, SweepRow
from store.secrets import Redactor
from store.turnstile import Turnstile
from store.writer import Writer

LEASE_S = 15.0
"""How long a process that gives no sign of life keeps its claims."""
VERIFIER_VARIABLES = ("PATH", "LANG", "LC_ALL")
"""What command verifiers get of this process's environment."""
SKIP_BATCH = 500


@attrs.frozen(kw_only=True)
class Part:
    """What this process brings to a sweep."""

    suite: Suite
    settings: Settings
    provider: Provider
    redactor: Redactor
    """Takes the provider's key and the environment's credentials out of all that is stored."""
    store: Path
    world: World
    say: Callable[[str], None]
    terminal: bool
    log: Log = silent
    told: Callable[[str, int], None] = lambda _sweep, _position: None
    """Told of each result that counts, when it is durable: the sweep's name and the run's position."""
    lease_s: float = LEASE_S


@attrs.frozen(kw_only=True)
class SweepEnd:
    """How this process's part of the sweep ended."""

    name: str
    stopped: Why | None
    """Why it stopped before the plan was done; None when it did not."""
    signal: int | None
    remaining: int
    """Runs without a final result."""
    peak: int
    """Most runs in flight at once."""


async def start(part: Part, tasks: Sequence[Task], *, command: str) -> SweepEnd:
    """Plan a sweep, store the plan, and work on it."""
    name = sweep_name(part.world.wall())
    conditions: dict[str, Json] = {
        **await provenance(Path.cwd(), part.world.environment),
        "settings": part.settings.to_json(),
        "suite": {
            "id": part.suite.suite_id,
            "version": part.suite.suite_version,
            "root": str(part.suite.root),
            "bundled": part.suite.bundled,
            "content": part.suite.content,
        },
        "sandbox": "none",
    }
    planned = plan(
        part.suite,
        tasks,
        part.settings,
        name=name,
        command=command,
        planned_at=part.world.wall(),
        conditions=conditions,
    )
    async with _writing(part) as writer:
        sweep_id = await writer.transact(store_plan(planned, part.redactor))
        part.say(f"sweep {name}: {len(planned.runs)} runs planned")
        return await _take_part(
            part, writer, sweep_id=sweep_id, name=name, planned=len(planned.runs), left=len(planned.runs), before=()
        )


async def resume(part: Part, sweep: SweepRow, *, raised: bool) -> SweepEnd:
    """Work on a stored sweep: on what has no final result yet, beside whoever else works on it.

    With *raised* the part's caps are new totals of the sweep; that is kept, with who said so.
    """
    refuse_changed(part.suite, sweep)
    async with _writing(part) as writer:
        if raised:
            caps = attrs.asdict(part.settings.caps)
            told = tell(sweep.id, "raise_cap", who=who(), why="resume", payload=caps, at=part.world.wall())
            await writer.transact(told)
        with Reader(part.store) as reader:
            left, before = reader.remaining(sweep.id), reader.tally(sweep.id)
        return await _take_part(
            part, writer, sweep_id=sweep.id, name=sweep.name, planned=sweep.runs, left=left, before=before
        )


def refuse_changed(suite: Suite, sweep: SweepRow) -> None:
    """A sweep goes on only with the suite it was planned with.

    Raises:
        UsageError: files differ; names them.
    """
    stored: Mapping[str, str] = sweep.conditions["suite"]["content"]
    changed = sorted(
        path for path in stored.keys() | suite.content.keys() if stored.get(path) != suite.content.get(path)
    )
    if changed:
        shown = ", ".join(changed[:10]) + (f" and {len(changed) - 10} more" if len(changed) > 10 else "")
        raise UsageError(
            f"sweep {sweep.name}: the suite has changed since it was planned: {shown}",
            "Put these files back as they were, or start a new sweep with `evalctl run`.",
        )


@asynccontextmanager
async def _writing(part: Part) -> AsyncIterator[Writer]:
    """The open store with its writer, which outlives everything inside."""
    turnstile = Turnstile(part.store, report=part.say, max_stall_s=part.settings.max_stall_s)
    try:
        async with open_database(part.store, turnstile) as database:
            if database.warning:
                part.say(database.warning)
            writer = Writer(database)
            async with anyio.create_task_group() as outermost:
                outermost.start_soon(writer.run)
                try:
                    yield writer
                finally:
                    writer.close()
    except BaseExceptionGroup as group:
        ours, foreign = group.split(EvalctlError)
        if ours is None or foreign is not None:
            raise
        raise _first(ours) from None


async def _take_part(
    part: Part, writer: Writer, *, sweep_id: int, name: str, planned: int, left: int, before: Sequence[Tally]
) -> SweepEnd:
    world, settings, control = part.world, part.settings, Control(part.say)
    lease_us = round(part.lease_s * 1_000_000)
    worker_id = await writer.transact(register(this_worker(__version__, world.wall()), world.wall() + lease_us))
    claims = SqliteClaims(
        writer, sweep_id=sweep_id, worker_id=worker_id, wall=world.wall, lease_us=lease_us, is_alive=is_alive
    )
    dead = {(attempt.sweep, attempt.position, attempt.number) for attempt in await claims.dead_attempts()}
    if killed := sweep_marker(lambda sweep, position, attempt: (sweep, position, attempt) in dead):
        part.say(f"ended {killed} processes that a dead worker had left behind")
    remove_abandoned(name, await writer.transact(living(worker_id, is_alive)))
    progress = Progress(planned=planned, before=before, now=world.monotonic)
    part.log("sweep.joined", sweep=name, worker=worker_id, planned=planned, left=left)

    def acknowledged(ending: Ending, counts: bool) -> None:
        progress.acknowledged(ending, counts)
        claim = ending.claim
        part.log(
            "run.ended",
            run=f"{name}/{claim.position}",
            attempt=claim.number,
            case=claim.case_id,
            outcome=ending.outcome,
            reason=ending.reason,
            wall_ms=ending.wall_ms,
            counts=counts,
        )
        if counts:
            part.told(name, claim.position)

    ledger = SqliteLedger(
        writer,
        part.redactor,
        sweep_id=sweep_id,
        worker_id=worker_id,
        wall=world.wall,
        monotonic=world.monotonic,
        on_acknowledged=acknowledged,
    )
    budget = SqliteBudget(writer, sweep_id=sweep_id, worker_id=worker_id, caps=settings.caps, wall=world.wall)
    provider = part.provider
    gate = Gate(
        sweep=name,
        provider=provider,
        permits=Permits(Governor(limit=settings.concurrency, longest_pause_s=settings.max_wait_s)),
        budget=budget,
        caps=settings.caps,
        ledger=ledger,
        policy=RetryPolicy(max_wait_s=settings.max_wait_s, max_stall_s=settings.max_stall_s),
        rng=world.rng,
    )
    try:
        with scratch(name, worker_id) as workspaces:
            dispatch = Dispatch(
                claims=claims,
                execute=_executor(part, gate, control, workspaces),
                account=provider.account,
                permits=gate.permits,
                control=control,
                concurrency=settings.concurrency,
            )
            progress.in_flight = lambda: dispatch.board.running
            async with anyio.create_task_group() as service:
                service.start_soon(_keep_lease, writer, worker_id, world.wall, lease_us)
                service.start_soon(control.listen)
                service.start_soon(bar, progress) if part.terminal else service.start_soon(
                    heartbeat, progress, part.say
                )
                if settings.max_wall_s is not None:
                    service.start_soon(control.expire, settings.max_wall_s)
                with control.running:
                    await dispatch.run()
                service.cancel_scope.cancel()
        if control.why in ("budget", "deadline"):
            await _skip_rest(claims, dispatch.board.unstarted(), ledger, world.wall, control.message)
    finally:
        with anyio.CancelScope(shield=True):
            await provider.aclose()
    remaining = await claims.remaining()
    await budget.close()
    await writer.transact(leave(worker_id))
    part.log("sweep.left", sweep=name, worker=worker_id, remaining=remaining, why=control.why)
    return SweepEnd(name=name, stopped=control.why, signal=control.signal, remaining=remaining, peak=dispatch.peak)


async def _skip_rest(
    claims: SqliteClaims, unstarted: Sequence[Claim], ledger: SqliteLedger, wall: Callable[[], int], message: str
) -> None:
    """Nothing more may be spent: the rest of the plan is `skipped(budget)`, for `resume` to run.

    Runs that another live process holds stay its own.
    """
    batch: Sequence[Claim] = unstarted or await claims.claim(SKIP_BATCH)
    while batch:
        for claim in batch:
            ledger.finish(skipped(claim, "budget", message, wall()))
        await ledger.room()
        batch = await claims.claim(SKIP_BATCH)


async def _keep_lease(writer: Writer, worker_id: int, wall: Callable[[], int], lease_us: int) -> None:
    while True:
        await anyio.sleep(lease_us / 4_000_000)
        writer.submit(renew(worker_id, wall() + lease_us))


def _executor(part: Part, gate: Gate, control: Control, workspaces: Path) -> Executor:
    settings, environment = part.settings, part.world.environment
    return Executor(
        suite=part.suite,
        settings=settings,
        gate=gate,
        subject=BuiltinAgent,
        fixtures=Fixtures(),
        workspaces=Path(tempfile.mkdtemp(prefix="evalctl-kept-")) if settings.keep else workspaces,
        control=control,
        environment={name: environment[name] for name in VERIFIER_VARIABLES if name in environment},
        wall=part.world.wall,
        kept=lambda claim, path: part.say(f"{gate.sweep}/{claim.position}: kept {path}"),
    )


def _first(group: BaseExceptionGroup[EvalctlError]) -> EvalctlError:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
