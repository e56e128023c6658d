"""One process's share of a sweep: it joins, executes until nothing is left or it is told to stop, and leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import anyio
import attrs

from orchestrator.engine.control.control import Control, Why
from orchestrator.engine.control.waits import Waits
from orchestrator.engine.control.watchdog import Watchdog
from orchestrator.engine.dispatch import Dispatch
from orchestrator.engine.gate.breaker import Breaker
from orchestrator.engine.gate.bucket import Bucket
from orchestrator.engine.gate.gate import Gate
from orchestrator.engine.gate.governor import Governor
from orchestrator.engine.gate.permits import Permits
from orchestrator.engine.gate.retry import RetryPolicy
from orchestrator.engine.kind import Asked, Job, Room
from orchestrator.engine.progress import Progress, bar, heartbeat
from orchestrator.engine.skips import skip_rest
from orchestrator.log import Log, silent
from orchestrator.suite.settings import Settings
from orchestrator.text import counted
from orchestrator.version import __version__
from orchestrator.workspaces.scratch import remove_abandoned, remove_homes, scratch
from orchestrator.world import World, is_alive, this_worker
from providers.base import quirks_of
from providers.errors import ProviderError
from providers.system.process import sweep_marker
from store.records import OutcomeCount
from store.rows import Ending
from store.secrets.redactor import Redactor
from store.sql.allotments import SqliteBudget
from store.sql.claims import SqliteClaims
from store.sql.commands import in_force
from store.sql.leases import leave, living, register
from store.sql.ledger import SqliteLedger
from store.sql.writer import Writer

LEASE_S = 15.0
"""How long a process that gives no sign of life keeps its claims."""
ORDERS_POLL_S = 0.5
"""How often to look for an order: a single seek."""
LEAVING_S = 20.0
"""How long a process that was told to end at once may take to write what it knows."""
SKIPS = {"budget": "budget", "deadline": "budget", "blocked": "provider_blocked", "cancelled": "cancelled"}
"""Why a process stops -> the reason its unstarted runs are skipped for; with other whys they are left as they are."""


@attrs.frozen(kw_only=True)
class Part:
    """What this process brings to a sweep."""

    job: Job
    settings: Settings
    redactor: Redactor
    """Takes the provider's key and the environment's credentials out of all that is stored."""
    store: Path
    world: World
    say: Callable[[str], None]
    terminal: bool
    errors: bool = False
    """Runs that had ended in an infrastructural error are run again."""
    cancelled: bool = False
    """The same for cancelled ones."""
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


@attrs.frozen(kw_only=True)
class Stored:
    """A sweep whose plan is in the store."""

    id: int
    name: str
    planned: int
    """Runs."""
    before: tuple[OutcomeCount, ...] = ()
    """What its runs had come to when this process came to it."""


@attrs.frozen(kw_only=True)
class Membership:
    """What makes this process a worker of the sweep, and its ways to the record."""

    writer: Writer
    sweep_id: int
    worker_id: int
    claims: SqliteClaims
    ledger: SqliteLedger
    budget: SqliteBudget
    progress: Progress


async def take_part(part: Part, writer: Writer, sweep: Stored) -> SweepEnd:
    """Work on the sweep until nothing is left to do, for anyone, or this process is told to stop.

    Raises:
        StoreFailed: the record can no longer be kept.
    """
    member = await _join(part, writer, sweep)
    if sweep.before and not await member.claims.remaining():
        part.say(f"sweep {sweep.name}: nothing is left to run")
    control = Control(_saying(part), at_once=lambda: writer.hurry(LEAVING_S))
    ways = _Ways(part, member, control)
    try:
        with scratch(sweep.name, member.worker_id) as directory:
            room = Room(
                sweep=sweep.name,
                settings=part.settings,
                gates=ways.gates,
                ledger=member.ledger,
                control=control,
                waits=ways.waits,
                scratch=directory,
                world=part.world,
                say=part.say,
            )
            dispatch = Dispatch(
                claims=member.claims,
                execute=part.job.executor(room),
                account=part.job.account,
                permits=ways.permits,
                control=control,
                concurrency=part.settings.concurrency,
                waits=ways.waits,
            )
            member.progress.in_flight = lambda: dispatch.board.running
            member.progress.remarks = lambda: (ways.waits.summary(), control.paused)
            await _run(part, member, control, ways, dispatch)
        if (reason := SKIPS.get(control.why or "")) is not None:
            unstarted, message = dispatch.board.unstarted(), control.message
            await skip_rest(
                member.claims, member.ledger, unstarted, reason=reason, message=message, wall=part.world.wall
            )
    finally:
        with anyio.CancelScope(shield=True):
            for asked in part.job.asked.values():
                await asked.provider.aclose()
    # Once more: a process that worked beside this one may have died since, its last runs finished here.
    await _clear_away(part, writer, sweep, member.claims, member.worker_id)
    for asked in part.job.asked.values():
        if quirks := quirks_of(asked.provider):
            member.ledger.notice("provider_adapted", {"account": asked.provider.account, "quirks": list(quirks)})
    remaining = await member.claims.remaining()
    member.ledger.notice("left", {"why": control.why, "message": control.message, "remaining": remaining})
    await member.budget.close()
    await writer.transact(leave(member.worker_id))
    part.log("sweep.left", sweep=sweep.name, worker=member.worker_id, remaining=remaining, why=control.why)
    return SweepEnd(
        name=sweep.name, stopped=control.why, signal=control.signal, remaining=remaining, peak=dispatch.peak
    )


def _saying(part: Part) -> Callable[[str], None]:
    """To the person at the terminal, without secrets: a reason to stop may quote an endpoint, which may quote a key."""
    return lambda text: part.say(part.redactor.text(text))


async def _join(part: Part, writer: Writer, sweep: Stored) -> Membership:
    """Become a worker of the sweep, and clear away what dead ones have left running or lying about."""
    world, settings = part.world, part.settings
    lease_us = round(part.lease_s * 1_000_000)
    worker_id = await writer.transact(register(this_worker(__version__, world.wall()), world.wall() + lease_us))
    claims = SqliteClaims(
        writer,
        sweep_id=sweep.id,
        worker_id=worker_id,
        wall=world.wall,
        monotonic=world.monotonic,
        lease_us=lease_us,
        is_alive=is_alive,
        errors=part.errors,
        cancelled=part.cancelled,
    )
    progress = Progress(planned=sweep.planned, before=sweep.before, now=world.monotonic)

    def acknowledged(ending: Ending, counts: bool) -> None:
        progress.acknowledged(ending, counts)
        claim = ending.claim
        part.log(
            "run.ended",
            run=f"{sweep.name}/{claim.position}",
            attempt=claim.number,
            case=claim.case_id,
            outcome=ending.outcome,
            reason=ending.reason,
            wall_ms=ending.measured.wall_ms,
            counts=counts,
        )
        if counts:
            part.told(sweep.name, claim.position)

    ledger = SqliteLedger(
        writer,
        part.redactor,
        sweep_id=sweep.id,
        worker_id=worker_id,
        wall=world.wall,
        monotonic=world.monotonic,
        on_acknowledged=acknowledged,
    )
    budget = SqliteBudget(writer, sweep_id=sweep.id, worker_id=worker_id, caps=settings.caps, wall=world.wall)
    killed = await _clear_away(part, writer, sweep, claims, worker_id)
    ledger.notice("joined", {"concurrency": settings.concurrency, "endedProcesses": killed})
    part.log("sweep.joined", sweep=sweep.name, worker=worker_id, planned=sweep.planned)
    return Membership(
        writer=writer,
        sweep_id=sweep.id,
        worker_id=worker_id,
        claims=claims,
        ledger=ledger,
        budget=budget,
        progress=progress,
    )


async def _clear_away(part: Part, writer: Writer, sweep: Stored, claims: SqliteClaims, worker_id: int) -> int:
    """End what dead workers have left running, and remove what they have left lying about; how many processes."""
    dead = {(attempt.sweep, attempt.position, attempt.number) for attempt in await claims.dead_attempts()}
    killed = sweep_marker(lambda name, position, attempt: (name, position, attempt) in dead) if dead else 0
    if killed:
        part.say(f"ended {counted(killed, 'process', 'processes')} that a dead worker had left behind")
    remove_homes(dead)
    remove_abandoned(sweep.name, await writer.transact(living(worker_id, is_alive)))
    return killed


async def _run(part: Part, member: Membership, control: Control, ways: _Ways, dispatch: Dispatch) -> None:
    """Dispatch, with the services that go with it: lease, signals, orders, bounds, and word of how far it is."""
    control.obey(await member.writer.look(in_force(member.sweep_id)))
    async with anyio.create_task_group() as service:
        service.start_soon(_keep_lease, part, member, ways.permits)
        service.start_soon(_keep_obeying, member, control)
        service.start_soon(_watchdog(part, member, control, ways, dispatch).watch)
        service.start_soon(control.listen)
        if part.terminal:
            service.start_soon(bar, member.progress)
        else:
            service.start_soon(heartbeat, member.progress, part.say)
        if part.settings.max_wall_s is not None:
            service.start_soon(control.expire, part.settings.max_wall_s)
        with control.running:
            await dispatch.run()
        service.cancel_scope.cancel()


async def _keep_lease(part: Part, member: Membership, permits: Mapping[str, Permits]) -> None:
    """Renew the lease, and share the accounts' rates with whoever else is alive."""
    while True:
        processes = len(await member.writer.transact(living(member.worker_id, is_alive)))
        for account in permits.values():
            account.share(processes)
        await anyio.sleep(part.lease_s / 4)
        member.claims.renew()


async def _keep_obeying(member: Membership, control: Control) -> None:
    """Look for orders from other terminals, and obey them."""
    while True:
        control.obey(await member.writer.look(in_force(member.sweep_id)))
        await anyio.sleep(ORDERS_POLL_S)


def _watchdog(part: Part, member: Membership, control: Control, ways: _Ways, dispatch: Dispatch) -> Watchdog:
    bound_s = part.settings.max_stall_s
    return Watchdog(
        waits=ways.waits,
        control=control,
        bound_s=bound_s,
        work_bound_s=bound_s + 2 * part.job.longest_s,
        running=lambda: dispatch.board.running,
        others=member.claims.others,
        notice=member.ledger.notice,
    )


class _Ways:
    """The ways to everybody whom the job asks: a gate for each, and permits and a breaker for each account."""

    def __init__(self, part: Part, member: Membership, control: Control) -> None:
        self._part = part
        self._control = control
        self._blocked: set[str] = set()
        self.waits = Waits()
        accounts = {asked.provider.account for asked in part.job.asked.values()}
        self.permits = {account: self._permits_of(member) for account in sorted(accounts)}
        breakers = {account: Breaker() for account in accounts}
        self.gates = {
            name: self._gate(asked, member, breakers[asked.provider.account]) for name, asked in part.job.asked.items()
        }

    def _permits_of(self, member: Membership) -> Permits:
        settings = self._part.settings
        return Permits(
            Governor(
                cap=settings.concurrency,
                longest_pause_s=settings.max_wait_s,
                requests=Bucket(settings.rpm) if settings.rpm else None,
                tokens=Bucket(settings.tpm) if settings.tpm else None,
            ),
            told=member.ledger.notice,
        )

    def _gate(self, asked: Asked, member: Membership, breaker: Breaker) -> Gate:
        settings, account = self._part.settings, asked.provider.account
        return Gate(
            provider=asked.provider,
            permits=self.permits[account],
            budget=member.budget,
            caps=settings.caps,
            prices=asked.prices,
            unpriced=asked.unpriced,
            tokens=asked.tokens,
            ledger=member.ledger,
            policy=RetryPolicy(
                first_token_retries=settings.agent.first_token_retries,
                max_wait_s=settings.max_wait_s,
                max_stall_s=settings.max_stall_s,
            ),
            rng=self._part.world.rng,
            waits=self.waits,
            breaker=breaker,
            blocked=lambda error: self._block(account, error),
        )

    def _block(self, account: str, error: ProviderError) -> None:
        """The account has refused for good. While others have not, theirs go on."""
        self._blocked.add(account)
        message = f"nothing more is asked of {account}: {error}"
        if self._blocked == self.permits.keys():
            self._control.drain("blocked", message)
        else:
            _saying(self._part)(message)
