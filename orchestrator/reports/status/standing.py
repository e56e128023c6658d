"""The standing of a sweep, which `status` prints: results so far, worker processes, runs left, amounts spent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import attrs

from orchestrator.engine.caps import caps_of
from orchestrator.engine.control.commands import find_active_command
from orchestrator.reports.conditions import format_time
from orchestrator.reports.hints import Hint, Line
from orchestrator.reports.phrases import describe_resume
from orchestrator.text import format_count, one_line
from store.money import format_nano_usd
from store.rows import Amount, SweepRow

if TYPE_CHECKING:
    from store.events import Json
    from store.records import CommandRow, OutcomeCount, WorkerState
    from store.rows import WorkerRow
    from store.sql.reader import Reader

SCHEMA = "evalctl.status/1"


@attrs.frozen(kw_only=True)
class Worker:
    """A worker process that has claimed runs of the sweep."""

    id: int
    host: str
    pid: int
    version: str
    state: str
    """`running`; `stalled` (its lease has expired, but the process exists); `unknown` (its lease has expired, and it is
    on another host); `left` (it signed off); `died`."""
    attempts: int
    open: int
    """Attempts without an outcome."""
    started_at: int
    """Microseconds UTC."""


@attrs.frozen(kw_only=True)
class Standing:
    """A sweep at one moment."""

    sweep: SweepRow
    tallies: tuple[OutcomeCount, ...]
    remaining: int
    """Runs that `resume` would run: without a result, or with one that `resume` replaces."""
    workers: tuple[Worker, ...]
    spent: Amount
    allotted: Amount
    """Amount of the caps that is allotted to processes, spent or not."""
    caps: Mapping[str, int]
    command: CommandRow | None = None
    """The pause or cancel in force; None without one."""

    @property
    def with_result(self) -> int:
        """Number of runs with a result."""
        return sum(tally.count for tally in self.tallies)

    @property
    def final(self) -> int:
        """Number of runs with a final result, which a plain `resume` keeps."""
        return sum(tally.count for tally in self.tallies if not tally.again)

    @property
    def unfinished(self) -> int:
        """Number of runs without a result."""
        return self.sweep.runs - self.with_result

    @property
    def in_flight(self) -> int:
        """Number of runs claimed by running processes, including the few that are claimed ahead."""
        return sum(worker.open for worker in self.workers if worker.state == "running")

    @property
    def state(self) -> str:
        """State of the sweep.

        `done`; with runs left `running`, `paused` (its processes wait) or `stopped` (there are none); `cancelled` even
        before its processes have ended.
        """
        if self.command is not None and self.command.verb == "cancel":
            return "cancelled"
        if not self.remaining:
            return "done"
        if not any(worker.state == "running" for worker in self.workers):
            return "stopped"
        return "running" if self.command is None else "paused"


def standing_of(reader: Reader, sweep: SweepRow, *, now: int, is_alive: Callable[[WorkerRow], bool | None]) -> Standing:
    """Read the standing of *sweep* at *now* (microseconds UTC); *is_alive* returns None for a process it cannot see."""
    left_ids = {notice.worker_id for notice in reader.list_notices(sweep.id) if notice.kind == "left"}
    commands = reader.list_commands(sweep.id)
    return Standing(
        sweep=sweep,
        tallies=tuple(reader.count_outcomes(sweep.id)),
        remaining=reader.count_remaining(sweep.id),
        workers=tuple(
            _make_worker(state, state.id in left_ids, now, is_alive) for state in reader.list_workers(sweep.id)
        ),
        spent=reader.sum_spent(sweep.id),
        allotted=reader.sum_allotted(sweep.id),
        caps=attrs.asdict(caps_of(sweep, commands), filter=lambda _field, cap: cap is not None),
        command=find_active_command(commands),
    )


def _make_worker(row: WorkerState, left: bool, now: int, is_alive: Callable[[WorkerRow], bool | None]) -> Worker:
    return Worker(
        id=row.id,
        host=row.host,
        pid=row.pid,
        version=row.version,
        state="left" if left else _worker_state(row.expires_at, now, is_alive(row.worker_row)),
        attempts=row.attempts,
        open=row.open,
        started_at=row.started_at,
    )


def _worker_state(expires_at: int | None, now: int, alive: bool | None) -> str:
    if alive is False or expires_at is None:
        return "died"
    if expires_at > now:
        return "running"
    return "unknown" if alive is None else "stalled"


def standing_to_json(standing: Standing) -> dict[str, Json]:
    """Return the standing as a JSON object."""
    sweep = standing.sweep
    return {
        "schema": SCHEMA,
        "sweep": sweep.name,
        "command": sweep.command,
        "suiteId": sweep.suite_id,
        "mode": sweep.mode,
        "k": sweep.repetitions,
        "seed": sweep.seed,
        "state": standing.state,
        "planned": sweep.runs,
        "withResult": standing.with_result,
        "unfinished": standing.unfinished,
        "remaining": standing.remaining,
        "inFlight": standing.in_flight,
        "results": [
            {
                "outcome": tally.outcome,
                "reason": tally.reason,
                "judged": tally.judged,
                "again": tally.again,
                "count": tally.count,
            }
            for tally in standing.tallies
        ],
        "workers": [attrs.asdict(worker) for worker in standing.workers],
        "order": _command_to_json(standing.command),
        "spent": attrs.asdict(standing.spent),
        "granted": attrs.asdict(standing.allotted),
        "caps": dict(standing.caps),
    }


def standing_lines(standing: Standing) -> Iterator[Line]:
    """Yield the printed lines, without control characters; the last one proposes a command."""
    sweep = standing.sweep
    yield f"{one_line(sweep.suite_id)}, sweep {one_line(sweep.name)}: {standing.state}"
    have = "has" if sweep.runs == 1 else "have"
    final = f", {standing.final:,} of them final" if standing.final < standing.with_result else ""
    yield (
        f"mode {sweep.mode}, k {sweep.repetitions}, seed {sweep.seed}: {standing.with_result:,} of "
        f"{format_count(sweep.runs, 'run')} {have} a result{final}, {standing.in_flight:,} claimed"
    )
    if standing.command is not None:
        yield describe_command(standing.command)
    for tally in standing.tallies:
        word = tally.outcome if tally.reason is None else f"{tally.outcome}({tally.reason})"
        remarks = [] if tally.judged else ["in no rate"]
        remarks += ["runs again with resume"] if tally.again else []
        remark = f"  ({', '.join(remarks)})" if remarks else ""
        yield f"  {tally.count:>7,}  {one_line(word)}{remark}"
    if standing.unfinished:
        yield f"  {standing.unfinished:>7,}  without a result"
    for worker in standing.workers:
        yield (
            f"worker {one_line(worker.host)} pid {worker.pid}, evalctl {one_line(worker.version)}: {worker.state}, "
            f"{format_count(worker.attempts, 'attempt')}"
            + (f", {worker.open} without an outcome" if worker.open else "")
        )
    yield f"spent: {_spent_against_caps(standing)}"
    if standing.state == "cancelled":
        yield Hint(f"resume {sweep.name} --cancelled", "runs the cancelled runs")
    elif standing.state == "done":
        yield Hint(f"show {sweep.name}")
    elif standing.state == "stopped":
        capped = any((tally.outcome, tally.reason) == ("skipped", "budget") for tally in standing.tallies)
        yield Hint(f"resume {sweep.name}", describe_resume(standing.remaining, capped=capped))
    else:
        are = "is" if standing.remaining == 1 else "are"
        lead = f"{format_count(standing.remaining, 'run')} {are} left; another process may join:"
        yield Hint(f"resume {sweep.name}", lead=lead)


def describe_command(command: CommandRow) -> str:
    """Describe a pause or cancel: `paused by me@host at 2026-11-30T10:15:00.000Z (lunch)`."""
    word = "paused" if command.verb == "pause" else "cancelled"
    return f"{word} by {one_line(command.who)} at {format_time(command.at)}" + (
        f" ({one_line(command.why)})" if command.why else ""
    )


def _command_to_json(command: CommandRow | None) -> dict[str, Json] | None:
    return None if command is None else {"verb": command.verb, "who": command.who, "why": command.why, "at": command.at}


def _spent_against_caps(standing: Standing) -> str:
    parts = []
    for name, label in (("calls", "calls"), ("tokens", "tokens")):
        spent, cap = getattr(standing.spent, name), standing.caps.get(name)
        limit = f" of at most {cap:,}" if cap is not None else ""
        parts.append(f"{spent:,} {label}{limit}")
    cap = standing.caps.get("nusd")
    if standing.spent.nusd or cap is not None:
        parts.append(
            f"{format_nano_usd(standing.spent.nusd)} USD"
            + (f" of at most {format_nano_usd(cap)}" if cap is not None else "")
        )
    return ", ".join(parts)
