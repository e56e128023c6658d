"""Worker: one process that joins a sweep, executes runs until none is left or it has to stop, and leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import anyio
import attrs

from orchestrator.engine.control.control import Control, StopReason
from orchestrator.engine.control.waits import Waits
from orchestrator.engine.control.watchdog import Watchdog
from orchestrator.engine.descriptors import fit_concurrency
from orchestrator.engine.dispatch import Dispatch
from orchestrator.engine.gate.breaker import Breaker
from orchestrator.engine.gate.bucket import Bucket
from orchestrator.engine.gate.gate import Gate
from orchestrator.engine.gate.governor import Governor
from orchestrator.engine.gate.notices import AnswerNotices
from orchestrator.engine.gate.permits import Permits
from orchestrator.engine.gate.retry import RetryPolicy
from orchestrator.engine.kind import PricedProvider, RunContext, RunKind, Terms
from orchestrator.engine.progress import Progress, draw_bar, print_heartbeat
from orchestrator.engine.skips import skip_rest
from orchestrator.log import Log, discard_event
from orchestrator.text import format_count
from orchestrator.version import __version__
from orchestrator.workspaces.scratch import make_scratch, remove_abandoned, remove_homes
from orchestrator.world import World, is_alive, is_running, this_worker
from providers.base import quirks_of
from providers.errors import ProviderError
from providers.system.process import kill_marked_processes
from store.records import OutcomeCount
from store.rows import Ending
from store.secrets.redactor import Redactor
from store.sql.allotments import SqliteAllotments
from store.sql.claims import RerunPolicy, SqliteClaims
from store.sql.commands import find_command_in_force
from store.sql.leases import end_lease, find_living_workers, register_worker
from store.sql.ledger import SqliteLedger
from store.sql.writer import Writer

LEASE_S = 15.0
"""Lease of a process: seconds without renewal after which others may take its claims."""
COMMANDS_POLL_S = 0.5
"""Seconds between looks for a command, each of which is a single seek."""
FINAL_WRITE_S = 20.0
"""Seconds that a process which has to end at once may wait for its last writes."""
SKIP_REASONS = {"budget": "budget", "deadline": "budget", "blocked": "provider_blocked", "cancelled": "cancelled"}
"""`StopReason` -> reason in the outcome of the runs that do not start; with other reasons they stay unfinished."""


@attrs.frozen(kw_only=True)
class WorkerSetup:
    """The resources that a process brings to a sweep."""

    kind: RunKind
    redactor: Redactor
    """Removes the provider's key and the environment's credentials from everything that is stored."""
    store: Path
    world: World
    say: Callable[[str], None]
    terminal: bool
    rerun_errors: bool = False
    """Whether runs that ended in an infrastructure error run again."""
    rerun_cancelled: bool = False
    """Whether cancelled runs run again."""
    log: Log = discard_event
    on_result: Callable[[str, int], None] = lambda _sweep, _position: None
    """Called for each durable result that counts, with the sweep's name and the run's position."""
    lease_s: float = LEASE_S

    @property
    def terms(self) -> Terms:
        """The sweep's terms."""
        return self.kind.settings


@attrs.frozen(kw_only=True)
class SweepEnd:
    """The end of one process's work on a sweep."""

    name: str
    stopped: StopReason | None
    """Why the process stopped before the plan was done; None if it did not."""
    signal: int | None
    """The last signal that the process received."""
    remaining: int
    """Number of runs without a final result."""
    peak: int
    """Maximum number of runs in flight at once."""


@attrs.frozen(kw_only=True)
class StoredSweep:
    """A sweep whose plan is in the store."""

    id: int
    name: str
    planned: int
    """Number of runs."""
    outcomes: tuple[OutcomeCount, ...] = ()
    """Outcomes of its runs when this process joined; empty for a new sweep."""


@attrs.frozen(kw_only=True)
class Membership:
    """The membership of this process as a worker of the sweep, and its access to the record."""

    writer: Writer
    sweep_id: int
    worker_id: int
    claims: SqliteClaims
    ledger: SqliteLedger
    allotments: SqliteAllotments
    progress: Progress


async def work_on_sweep(setup: WorkerSetup, writer: Writer, sweep: StoredSweep) -> SweepEnd:
    """Work on the sweep until no run is left for any process, or until this process has to stop.

    Raises:
        StoreFailed: the record can no longer be kept.
    """
    member = await _register_worker(setup, writer, sweep)
    if sweep.outcomes and not await member.claims.count_remaining():
        setup.say(f"sweep {sweep.name}: nothing is left to run")
    control = Control(_make_notice_printer(setup), on_cancel=lambda: writer.limit_waits(FINAL_WRITE_S))
    routes = _Routes(setup, member, control)
    concurrency, limit = fit_concurrency(setup.terms.concurrency)
    if concurrency < setup.terms.concurrency:
        setup.say(
            f"--concurrency {setup.terms.concurrency} may need more than the {limit} file descriptors that "
            f"`ulimit -n` allows: {format_count(concurrency, 'run')} at once"
        )
    try:
        with make_scratch(sweep.name, member.worker_id) as directory:
            context = RunContext(
                sweep=sweep.name,
                gates=routes.gates,
                ledger=member.ledger,
                control=control,
                waits=routes.waits,
                scratch=directory,
                world=setup.world,
                say=setup.say,
            )
            dispatch = Dispatch(
                claims=member.claims,
                execute=setup.kind.make_executor(context),
                account_of=setup.kind.account_of,
                permits=routes.permits,
                control=control,
                concurrency=concurrency,
                waits=routes.waits,
            )
            member.progress.in_flight = lambda: dispatch.board.running
            member.progress.remarks = lambda: (routes.waits.summarize_waits(), control.paused)
            await _run_services(setup, member, control, routes, dispatch)
        if (reason := SKIP_REASONS.get(control.why or "")) is not None:
            unstarted, message = dispatch.board.take_unstarted(), control.message
            await skip_rest(
                member.claims, member.ledger, unstarted, reason=reason, message=message, wall=setup.world.wall
            )
    finally:
        with anyio.CancelScope(shield=True):
            for priced in setup.kind.providers.values():
                await priced.provider.aclose()
    # Once more: another worker may have died meanwhile, and this process finished its runs.
    await _clear_away(setup, writer, sweep, member.claims, member.worker_id)
    for priced in setup.kind.providers.values():
        if quirks := quirks_of(priced.provider):
            member.ledger.record_notice(
                "provider_adapted", {"account": priced.provider.account, "quirks": list(quirks)}
            )
    remaining = await member.claims.count_remaining()
    member.ledger.record_notice("left", {"why": control.why, "message": control.message, "remaining": remaining})
    await member.allotments.close()
    await writer.submit_and_wait(end_lease(member.worker_id))
    setup.log("sweep.left", sweep=sweep.name, worker=member.worker_id, remaining=remaining, why=control.why)
    return SweepEnd(
        name=sweep.name, stopped=control.why, signal=control.signal, remaining=remaining, peak=dispatch.peak
    )


def _make_notice_printer(setup: WorkerSetup) -> Callable[[str], None]:
    """Make a printer that redacts secrets: a reason to stop may quote an endpoint, which may quote a key."""
    return lambda text: setup.say(setup.redactor.redact_text(text))


async def _register_worker(setup: WorkerSetup, writer: Writer, sweep: StoredSweep) -> Membership:
    """Register this process as a worker of the sweep, and clean up after dead workers."""
    world, settings = setup.world, setup.terms
    lease_us = round(setup.lease_s * 1_000_000)
    worker_id = await writer.submit_and_wait(
        register_worker(this_worker(__version__, world.wall()), world.wall() + lease_us)
    )
    claims = SqliteClaims(
        writer,
        sweep_id=sweep.id,
        worker_id=worker_id,
        wall=world.wall,
        monotonic=world.monotonic,
        lease_us=lease_us,
        is_alive=is_alive,
        is_running=is_running,
        rerun=RerunPolicy(errors=setup.rerun_errors, cancelled=setup.rerun_cancelled),
    )
    progress = Progress(planned=sweep.planned, before=sweep.outcomes, now=world.monotonic)

    def count_ending(ending: Ending, counts: bool) -> None:
        progress.count_acknowledged(ending, counts)
        claim = ending.claim
        setup.log(
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
            setup.on_result(sweep.name, claim.position)

    ledger = SqliteLedger(
        writer,
        setup.redactor,
        sweep_id=sweep.id,
        worker_id=worker_id,
        wall=world.wall,
        monotonic=world.monotonic,
        on_acknowledged=count_ending,
    )
    budget = SqliteAllotments(writer, sweep_id=sweep.id, worker_id=worker_id, caps=settings.caps, wall=world.wall)
    killed = await _clear_away(setup, writer, sweep, claims, worker_id)
    ledger.record_notice("joined", {"concurrency": settings.concurrency, "endedProcesses": killed})
    setup.log("sweep.joined", sweep=sweep.name, worker=worker_id, planned=sweep.planned)
    return Membership(
        writer=writer,
        sweep_id=sweep.id,
        worker_id=worker_id,
        claims=claims,
        ledger=ledger,
        allotments=budget,
        progress=progress,
    )


async def _clear_away(
    setup: WorkerSetup, writer: Writer, sweep: StoredSweep, claims: SqliteClaims, worker_id: int
) -> int:
    """End the processes of dead workers and remove their directories; return the number of processes."""
    dead = {(attempt.sweep, attempt.position, attempt.number) for attempt in await claims.list_dead_attempts()}
    killed = kill_marked_processes(lambda name, position, attempt: (name, position, attempt) in dead) if dead else 0
    if killed:
        setup.say(f"ended {format_count(killed, 'process', 'processes')} that a dead worker had left behind")
    remove_homes(dead)
    remove_abandoned(sweep.name, await writer.submit_and_wait(find_living_workers(worker_id, is_alive)))
    return killed


async def _run_services(
    setup: WorkerSetup, member: Membership, control: Control, routes: _Routes, dispatch: Dispatch
) -> None:
    """Run the dispatch and its services: lease, commands, watchdog, signals, progress and deadline."""
    control.obey_command(await member.writer.run_query(find_command_in_force(member.sweep_id)))
    async with anyio.create_task_group() as service:
        service.start_soon(_keep_lease, setup, member, routes.permits)
        service.start_soon(_keep_obeying, member, control)
        service.start_soon(_make_watchdog(setup, member, control, routes, dispatch).watch_waits)
        service.start_soon(control.listen_to_signals)
        if setup.terminal:
            service.start_soon(draw_bar, member.progress)
        else:
            service.start_soon(print_heartbeat, member.progress, setup.say)
        if setup.terms.max_wall_s is not None:
            service.start_soon(control.cancel_at_deadline, setup.terms.max_wall_s)
        with control.running:
            await dispatch.run_all()
        service.cancel_scope.cancel()


async def _keep_lease(setup: WorkerSetup, member: Membership, permits: Mapping[str, Permits]) -> None:
    """Renew the lease, and divide the accounts' rates among the living workers."""
    while True:
        processes = len(await member.writer.submit_and_wait(find_living_workers(member.worker_id, is_alive)))
        for account in permits.values():
            account.divide_rates(processes)
        await anyio.sleep(setup.lease_s / 4)
        member.claims.renew_lease()


async def _keep_obeying(member: Membership, control: Control) -> None:
    """Poll for commands from other terminals, and obey them."""
    while True:
        control.obey_command(await member.writer.run_query(find_command_in_force(member.sweep_id)))
        await anyio.sleep(COMMANDS_POLL_S)


def _make_watchdog(
    setup: WorkerSetup, member: Membership, control: Control, routes: _Routes, dispatch: Dispatch
) -> Watchdog:
    bound_s = setup.terms.max_stall_s
    return Watchdog(
        waits=routes.waits,
        control=control,
        bound_s=bound_s,
        work_bound_s=bound_s + 2 * setup.kind.max_run_s,
        count_running=lambda: dispatch.board.running,
        list_others=member.claims.list_other_holders,
        record_notice=member.ledger.record_notice,
    )


class _Routes:
    """Builds one gate per provider of the kind, and one limiter and circuit breaker per account."""

    def __init__(self, setup: WorkerSetup, member: Membership, control: Control) -> None:
        self._setup = setup
        self._control = control
        self._blocked: set[str] = set()
        self.waits = Waits()
        accounts = {priced.provider.account for priced in setup.kind.providers.values()}
        self.permits = {account: self._make_permits(member) for account in sorted(accounts)}
        breakers = {account: Breaker() for account in accounts}
        say = _make_notice_printer(setup)
        self._notices = {account: AnswerNotices(account=account, say=say) for account in accounts}
        self.gates = {
            name: self._make_gate(priced, member, breakers[priced.provider.account])
            for name, priced in setup.kind.providers.items()
        }

    def _make_permits(self, member: Membership) -> Permits:
        settings = self._setup.terms
        return Permits(
            Governor(
                cap=settings.concurrency,
                max_pause_s=settings.max_wait_s,
                requests=Bucket(settings.rpm) if settings.rpm else None,
                tokens=Bucket(settings.tpm) if settings.tpm else None,
            ),
            record_notice=member.ledger.record_notice,
        )

    def _make_gate(self, priced: PricedProvider, member: Membership, breaker: Breaker) -> Gate:
        settings, account = self._setup.terms, priced.provider.account
        return Gate(
            provider=priced.provider,
            permits=self.permits[account],
            allotments=member.allotments,
            caps=settings.caps,
            prices=priced.prices,
            allow_unpriced=priced.allow_unpriced,
            counts_tokens=priced.counts_tokens,
            ledger=member.ledger,
            policy=RetryPolicy(
                max_wait_s=settings.max_wait_s,
                max_stall_s=settings.max_stall_s,
            ),
            rng=self._setup.world.rng,
            waits=self.waits,
            breaker=breaker,
            notices=self._notices[account],
            on_blocked=lambda error: self._block_account(account, error),
        )

    def _block_account(self, account: str, error: ProviderError) -> None:
        """Note that the account's circuit breaker opened; drain the process once all accounts are blocked."""
        self._blocked.add(account)
        message = f"no more requests go to {account}: {error}"
        if self._blocked == self.permits.keys():
            self._control.start_draining("blocked", message)
        else:
            _make_notice_printer(self._setup)(message)
