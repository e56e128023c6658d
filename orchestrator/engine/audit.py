"""Whether a sweep's books balance: what its processes took of the caps against what their requests came to, by their
own events, and the plan against the results.

What a process took and cannot account for is named: it is held while the process works, and lost with one that was
killed, since nobody can prove that it was not spent. With one that left there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Literal

import attrs

from orchestrator.engine.caps import caps_of
from orchestrator.text import format_count, list_names, one_line
from store.money import format_usd
from store.rows import Amount, SweepRow

if TYPE_CHECKING:
    from store.events import Json
    from store.records import CommandRow, Coverage, WorkerAccount, WorkerState
    from store.rows import WorkerRow
    from store.sql.reader import Reader

Dimension = Literal["calls", "tokens", "nusd"]
DIMENSIONS: tuple[Dimension, ...] = ("calls", "tokens", "nusd")
MAX_LOST_NAMES = 5
"""Processes that a line names; the rest is counted."""


@attrs.frozen(kw_only=True)
class WorkerBalance:
    """One process's part in it."""

    host: str
    pid: int
    state: Literal["left", "working", "lost"]
    capped: tuple[Dimension, ...]
    """The caps it had to keep to."""
    granted: Amount
    """Taken of the caps and not given back; beyond the caps, what it has recorded of its spending."""
    charged: Amount
    """What its requests came to."""

    @property
    def rest(self) -> Amount:
        """Taken, and not accounted for by a request."""
        return self.granted - self.charged

    @property
    def name(self) -> str:
        """As messages call it."""
        return f"{one_line(self.host)} pid {self.pid}"


@attrs.frozen(kw_only=True)
class Audit:
    """The books of a sweep at one moment."""

    planned: int
    """Runs that the plan says it has."""
    coverage: Coverage
    balances: tuple[WorkerBalance, ...]
    total: Amount
    """What the caps have been charged in all, by their own running total; nothing where there never was a cap."""
    unpriced: int
    """Requests whose cost is not known."""

    @property
    def capped(self) -> bool:
        """Whether any process had a cap to keep to."""
        return any(account.capped for account in self.balances)

    @property
    def charged(self) -> Amount:
        """What all requests came to: late, repeated and failed ones too."""
        return _sum_amounts(account.charged for account in self.balances)

    @property
    def reserved(self) -> Amount:
        """What working processes have taken and not spent yet, as far as is recorded."""
        return _sum_amounts(_capped_rest(account) for account in self.balances if account.state == "working")

    @property
    def lost(self) -> tuple[WorkerBalance, ...]:
        """Killed processes that had taken something nobody can account for."""
        return tuple(
            account for account in self.balances if account.state == "lost" and _capped_rest(account) != Amount()
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """What does not balance; nothing where all of it does."""
        return tuple(self._find_problems())

    def _find_problems(self) -> Iterator[str]:
        coverage = self.coverage
        if coverage.planned != self.planned:
            yield f"planned: {format_count(self.planned, 'run')}; stored: {coverage.planned:,}"
        if coverage.final + coverage.unfinished != coverage.planned:
            yield (
                f"{coverage.planned:,} runs are not {coverage.final:,} final results and {coverage.unfinished:,} "
                "unfinished ones"
            )
        if coverage.doubled:
            yield f"more than one result counts for {format_count(coverage.doubled, 'run')}"
        for account in self.balances:
            if account.capped and account.state == "left" and account.rest != Amount():
                yield f"{account.name} left, and {format_amount(account.rest)} of what it took are not accounted for"
            elif account.state == "lost" and any(getattr(_capped_rest(account), name) < 0 for name in DIMENSIONS):
                yield (
                    f"{account.name} was killed after spending more than it had taken: "
                    f"{format_amount(_capped_rest(account))} left"
                )
        if self.capped and all(account.state != "working" for account in self.balances):
            yield from self._find_uncapped()

    def _find_uncapped(self) -> Iterator[str]:
        """What was spent by processes without a cap counts up to the moment at which the first cap came."""
        before = self.total - _sum_amounts(account.granted for account in self.balances if account.capped)
        uncapped = _sum_amounts(account.charged for account in self.balances if not account.capped)
        if min(before.calls, before.tokens, before.nusd) < 0:
            yield f"the running total is less than what processes took, by {format_amount(Amount() - before)}"
        elif uncapped.calls > before.calls:
            yield f"made by processes that had no cap to keep to: {format_count(uncapped.calls - before.calls, 'call')}"


def audit_sweep(reader: Reader, sweep: SweepRow, *, now: int, is_alive: Callable[[WorkerRow], bool | None]) -> Audit:
    """The books of *sweep* at *now* (microseconds UTC). Memory stays flat; every event of a request is looked at.

    Raises:
        StoreRefused: the store cannot be read.
    """
    # In this order: who has left by now has recorded all that the accounts are read from.
    reader.refresh_snapshot()
    left = {notice.worker_id for notice in reader.list_notices(sweep.id) if notice.kind == "left"}
    workers = {worker.id: worker for worker in reader.list_workers(sweep.id)}
    controls = reader.list_commands(sweep.id)
    found = reader.list_worker_accounts(sweep.id)
    return Audit(
        planned=sweep.runs,
        coverage=reader.measure_coverage(sweep.id),
        balances=tuple(
            _audit_worker(
                account, workers.get(account.worker_id), sweep, controls, left=left, now=now, is_alive=is_alive
            )
            for account in found
        ),
        total=reader.sum_allotted(sweep.id),
        unpriced=sum(account.unpriced for account in found),
    )


def _audit_worker(
    found: WorkerAccount,
    worker: WorkerState | None,
    sweep: SweepRow,
    controls: Iterable[CommandRow],
    *,
    left: set[int | None],
    now: int,
    is_alive: Callable[[WorkerRow], bool | None],
) -> WorkerBalance:
    if worker is None:  # it has joined since
        return WorkerBalance(host="", pid=0, state="working", capped=(), granted=found.granted, charged=found.proven)
    caps = caps_of(sweep, [control for control in controls if control.at <= worker.started_at])
    return WorkerBalance(
        host=worker.host,
        pid=worker.pid,
        state=_worker_state(found, worker, left=worker.id in left, now=now, is_alive=is_alive),
        capped=tuple(name for name in DIMENSIONS if getattr(caps, name) is not None) if found.allotments else (),
        granted=found.granted,
        charged=found.proven,
    )


def _worker_state(
    found: WorkerAccount,
    worker: WorkerState,
    *,
    left: bool,
    now: int,
    is_alive: Callable[[WorkerRow], bool | None],
) -> Literal["left", "working", "lost"]:
    if left and worker.expires_at is None:
        # one that was killed between saying so and giving back has not settled
        return "left" if found.settled or not found.allotments else "lost"
    alive = is_alive(worker.worker_row)
    if alive is None:  # of another machine
        alive = worker.expires_at is not None and worker.expires_at > now
    return "working" if alive else "lost"


def audit_lines(audit: Audit) -> Iterator[str]:
    """For people: one line where all of it balances, else one for each thing that does not."""
    if audit.problems:
        yield from (f"AUDIT FAILED: {problem}" for problem in audit.problems)
        return
    coverage = audit.coverage
    text = f"{coverage.planned:,} planned = {coverage.final:,} final + {coverage.unfinished:,} unfinished"
    text += f"; {format_amount(audit.charged)} charged, by the events of every request"
    if audit.capped:
        text += ", and the caps agree"
    if audit.reserved != Amount():
        text += f"; held by working processes: {format_amount(audit.reserved)}"
    if audit.lost:
        names = [f"{account.name} ({format_amount(_capped_rest(account))})" for account in audit.lost]
        text += f"; counted as spent since nobody can prove otherwise, lost with {list_names(names, MAX_LOST_NAMES)}"
    if audit.unpriced and audit.charged.nusd:
        text += f"; the cost of {format_count(audit.unpriced, 'call')} is not known"
    yield f"audit: {text}"


def audit_to_json(audit: Audit) -> dict[str, Json]:
    """As a JSON object; amounts are calls, tokens and nano-USD."""
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
            {"host": account.host, "pid": account.pid, **attrs.asdict(_capped_rest(account))} for account in audit.lost
        ],
    }


def format_amount(amount: Amount) -> str:
    """`53 calls, 52,739 tokens, 0.0123 USD`; what is nothing is left out, unless all of it is."""
    parts = [format_count(amount.calls, "call")] if amount.calls else []
    parts += [format_count(amount.tokens, "token")] if amount.tokens else []
    parts += [f"{format_usd(amount.nusd)} USD"] if amount.nusd else []
    return ", ".join(parts) or "nothing"


def _capped_rest(account: WorkerBalance) -> Amount:
    """What of a process's rest the caps had given it; of the others it has only recorded a part yet."""
    return Amount(**{name: getattr(account.rest, name) for name in account.capped})


def _sum_amounts(amounts: Iterable[Amount]) -> Amount:
    total = Amount()
    for amount in amounts:
        total += amount
    return total
