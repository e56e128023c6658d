"""Audit of a sweep: compares what its processes reserved from the caps with what their requests spent, according to the
recorded events, and the plan with the results.

The difference of a process is *reserved* while it works, and *lost* if it was killed: it may have been spent. A process
that left has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Literal

import attrs

from orchestrator.engine.caps import caps_of
from orchestrator.text import format_count, list_names, one_line
from store.money import format_nano_usd
from store.rows import Amount, SweepRow

if TYPE_CHECKING:
    from store.events import Json
    from store.records import CommandRow, Coverage, WorkerAccount, WorkerState
    from store.rows import WorkerRow
    from store.sql.reader import Reader

Dimension = Literal["calls", "tokens", "nusd"]
DIMENSIONS: tuple[Dimension, ...] = ("calls", "tokens", "nusd")
MAX_LOST_NAMES = 5
"""Number of processes that the line names; it counts the others."""


@attrs.frozen(kw_only=True)
class WorkerBalance:
    """The balance of one process."""

    host: str
    pid: int
    state: Literal["left", "working", "lost"]
    capped: tuple[Dimension, ...]
    """The dimensions in which a cap bound it."""
    allotted: Amount
    """Reserved from the caps and not given back; in dimensions without a cap, the spending it has recorded."""
    charged: Amount
    """Spent by its requests."""

    @property
    def rest(self) -> Amount:
        """Reserved, but not spent by any recorded request."""
        return self.allotted - self.charged

    @property
    def name(self) -> str:
        """The process's name in messages."""
        return f"{one_line(self.host)} pid {self.pid}"


@attrs.frozen(kw_only=True)
class Audit:
    """The balance of a sweep at one moment."""

    planned: int
    """Number of runs in the plan."""
    coverage: Coverage
    balances: tuple[WorkerBalance, ...]
    total: Amount
    """The running total that is charged against the caps; zero if there never was a cap."""
    unpriced: int
    """Number of requests of unknown cost."""

    @property
    def capped(self) -> bool:
        """Whether a cap bound any process."""
        return any(balance.capped for balance in self.balances)

    @property
    def charged(self) -> Amount:
        """Spent by all requests, late, repeated and failed ones included."""
        return _sum_amounts(balance.charged for balance in self.balances)

    @property
    def reserved(self) -> Amount:
        """Reserved by working processes and not spent yet, according to the record."""
        return _sum_amounts(_unspent_allotment(balance) for balance in self.balances if balance.state == "working")

    @property
    def lost(self) -> tuple[WorkerBalance, ...]:
        """Killed processes whose reservations no request accounts for."""
        return tuple(
            balance for balance in self.balances if balance.state == "lost" and _unspent_allotment(balance) != Amount()
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """Descriptions of all that does not balance; empty if everything does."""
        return tuple(self._find_problems())

    def _find_problems(self) -> Iterator[str]:
        coverage = self.coverage
        if coverage.planned != self.planned:
            yield f"planned: {format_count(self.planned, 'run')}; stored: {coverage.planned:,}"
        if coverage.final + coverage.unfinished != coverage.planned:
            yield (
                f"{coverage.final:,} final and {coverage.unfinished:,} unfinished runs do not add up to "
                f"{coverage.planned:,} planned runs"
            )
        if coverage.doubled:
            yield f"{format_count(coverage.doubled, 'run')} with more than one result that counts"
        for balance in self.balances:
            if balance.capped and balance.state == "left" and balance.rest != Amount():
                yield f"{balance.name} left without accounting for {format_amount(balance.rest)} that it had reserved"
            elif balance.state == "lost" and any(getattr(_unspent_allotment(balance), name) < 0 for name in DIMENSIONS):
                yield (
                    f"{balance.name} was killed after spending more than it had reserved: "
                    f"{format_amount(_unspent_allotment(balance))} left"
                )
        if self.capped and all(balance.state != "working" for balance in self.balances):
            yield from self._find_uncapped()

    def _find_uncapped(self) -> Iterator[str]:
        """Compare what processes without a cap spent with the running total at the moment of the first cap."""
        before = self.total - _sum_amounts(balance.allotted for balance in self.balances if balance.capped)
        uncapped = _sum_amounts(balance.charged for balance in self.balances if not balance.capped)
        if min(before.calls, before.tokens, before.nusd) < 0:
            yield f"the processes reserved {format_amount(Amount() - before)} more than the running total"
        elif uncapped.calls > before.calls:
            calls = format_count(uncapped.calls - before.calls, "call")
            yield f"processes without a cap made {calls} that the running total does not include"


def audit_sweep(reader: Reader, sweep: SweepRow, *, now: int, is_alive: Callable[[WorkerRow], bool | None]) -> Audit:
    """Audit *sweep* at *now* (microseconds UTC). Reads every event of a request; memory stays flat.

    Raises:
        StoreRefused: the store cannot be read.
    """
    # The notices come first: a process that has left by now has recorded everything that the accounts are read from.
    reader.refresh_snapshot()
    left = {notice.worker_id for notice in reader.list_notices(sweep.id) if notice.kind == "left"}
    workers = {worker.id: worker for worker in reader.list_workers(sweep.id)}
    commands = reader.list_commands(sweep.id)
    accounts = reader.list_worker_accounts(sweep.id)
    return Audit(
        planned=sweep.runs,
        coverage=reader.measure_coverage(sweep.id),
        balances=tuple(
            _audit_worker(
                account, workers.get(account.worker_id), sweep, commands, left=left, now=now, is_alive=is_alive
            )
            for account in accounts
        ),
        total=reader.sum_allotted(sweep.id),
        unpriced=sum(account.unpriced for account in accounts),
    )


def _audit_worker(
    account: WorkerAccount,
    worker: WorkerState | None,
    sweep: SweepRow,
    commands: Iterable[CommandRow],
    *,
    left: set[int | None],
    now: int,
    is_alive: Callable[[WorkerRow], bool | None],
) -> WorkerBalance:
    if worker is None:  # it joined after the workers were listed
        return WorkerBalance(
            host="", pid=0, state="working", capped=(), allotted=account.allotted, charged=account.proven
        )
    caps = caps_of(sweep, [command for command in commands if command.at <= worker.started_at])
    return WorkerBalance(
        host=worker.host,
        pid=worker.pid,
        state=_worker_state(account, worker, left=worker.id in left, now=now, is_alive=is_alive),
        capped=tuple(name for name in DIMENSIONS if getattr(caps, name) is not None) if account.allotments else (),
        allotted=account.allotted,
        charged=account.proven,
    )


def _worker_state(
    account: WorkerAccount,
    worker: WorkerState,
    *,
    left: bool,
    now: int,
    is_alive: Callable[[WorkerRow], bool | None],
) -> Literal["left", "working", "lost"]:
    if left and worker.expires_at is None:
        # a process that was killed after its notice and before it gave back its allotments has not settled
        return "left" if account.settled or not account.allotments else "lost"
    alive = is_alive(worker.worker_row)
    if alive is None:  # on another machine
        alive = worker.expires_at is not None and worker.expires_at > now
    return "working" if alive else "lost"


def audit_lines(audit: Audit) -> Iterator[str]:
    """Format the audit as text: one line if everything balances, else one line per problem."""
    if audit.problems:
        yield from (f"AUDIT FAILED: {problem}" for problem in audit.problems)
        return
    coverage = audit.coverage
    text = f"{coverage.planned:,} planned = {coverage.final:,} final + {coverage.unfinished:,} unfinished"
    text += f"; {format_amount(audit.charged)} charged according to the events of every request"
    if audit.capped:
        text += ", and the caps agree"
    if audit.reserved != Amount():
        text += f"; held by working processes: {format_amount(audit.reserved)}"
    if audit.lost:
        names = [f"{balance.name} ({format_amount(_unspent_allotment(balance))})" for balance in audit.lost]
        text += f"; lost with killed processes and counted as spent: {list_names(names, MAX_LOST_NAMES)}"
    if audit.unpriced and audit.charged.nusd:
        text += f"; the cost of {format_count(audit.unpriced, 'call')} is unknown"
    yield f"audit: {text}"


def audit_to_json(audit: Audit) -> dict[str, Json]:
    """Encode the audit as a JSON object; amounts are calls, tokens and nano-USD."""
    return {
        "holds": not audit.problems,
        "problems": list(audit.problems),
        "planned": audit.planned,
        "final": audit.coverage.final,
        "unfinished": audit.coverage.unfinished,
        "charged": attrs.asdict(audit.charged),
        "unknownCost": audit.unpriced,
        "granted": attrs.asdict(audit.total),
        "held": attrs.asdict(audit.reserved),
        "lost": [
            {"host": balance.host, "pid": balance.pid, **attrs.asdict(_unspent_allotment(balance))}
            for balance in audit.lost
        ],
    }


def format_amount(amount: Amount) -> str:
    """Format an amount like `53 calls, 52,739 tokens, 0.0123 USD`, without zeros; `nothing` if all are zero."""
    figures = [format_count(amount.calls, "call")] if amount.calls else []
    figures += [format_count(amount.tokens, "token")] if amount.tokens else []
    figures += [f"{format_nano_usd(amount.nusd)} USD"] if amount.nusd else []
    return ", ".join(figures) or "nothing"


def _unspent_allotment(balance: WorkerBalance) -> Amount:
    """Select the capped dimensions of a process's rest; of the others the store knows only a part so far."""
    return Amount(**{name: getattr(balance.rest, name) for name in balance.capped})


def _sum_amounts(amounts: Iterable[Amount]) -> Amount:
    total = Amount()
    for amount in amounts:
        total += amount
    return total
