"""Why one run is unfinished: who has it, what it waits for, what its attempts came to, and what `resume` would do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import attrs

from orchestrator.reports.conditions import format_time
from orchestrator.reports.status.doing import Activity, activity_of
from orchestrator.reports.status.glance import format_span
from orchestrator.reports.status.standing import Standing, Worker, describe_command, standing_of
from orchestrator.text import one_line

if TYPE_CHECKING:
    from store.events import Json
    from store.records import AttemptRecord
    from store.rows import RunRecord, SweepRow, WorkerRow
    from store.sql.reader import Reader

SCHEMA = "evalctl.why/1"


@attrs.frozen(kw_only=True)
class RunStatus:
    """One run, and what is known of where it stands."""

    at: int
    run: RunRecord
    standing: Standing
    attempts: tuple[AttemptRecord, ...]
    holder: Worker | None
    """Who made the last attempt, if that has not ended."""
    activity: Activity | None
    """What the holder is about with it, while it holds a lease."""

    @property
    def finished(self) -> bool:
        """Whether its result is final."""
        return self.run.outcome is not None and not self.run.again


def run_status_of(
    reader: Reader, sweep: SweepRow, position: int, *, now: int, is_alive: Callable[[WorkerRow], bool | None]
) -> RunStatus:
    """Look at one run at *now* (microseconds UTC).

    Raises:
        UsageError: the sweep has no such position.
    """
    run = reader.find_run(sweep.id, position)
    standing = standing_of(reader, sweep, now=now, is_alive=is_alive)
    attempts = tuple(reader.list_attempts(run.run_id))
    last = attempts[-1] if attempts and attempts[-1].outcome is None else None
    doing = next(
        (one for one in reader.list_running_attempts(sweep.id) if last and one.attempt_id == last.attempt_id), None
    )
    return RunStatus(
        at=now,
        run=run,
        standing=standing,
        attempts=attempts,
        holder=next((worker for worker in standing.workers if last and worker.id == last.worker_id), None),
        activity=None if doing is None else activity_of(doing, now),
    )


def explain_unfinished(status: RunStatus) -> str:
    """Why it is unfinished, or that it is not."""
    run, holder = status.run, status.holder
    if status.finished:
        return f"it is finished: {_format_outcome(run.outcome, run.reason)}"
    if holder is None:
        if run.outcome is not None:
            return f"{_format_outcome(run.outcome, run.reason)} is no final result"
        return "it has not been claimed yet"
    process = f"process {holder.pid} on {one_line(holder.host)}"
    since = format_time(status.attempts[-1].claimed_at)
    match holder.state:
        case "running" if status.activity is not None:
            one = status.activity
            waits = (
                f"waits for {one.waits_for} since {format_time(one.since)} "
                f"({format_span(max(0, status.at - one.since) / 1_000_000)})"
            )
            ends = "" if one.until is None else f", until {format_time(one.until)}"
            return f"{process} {'works on it and' if one.begun else 'has claimed it, which'} {waits}{ends}"
        case "running":
            return f"{process} has claimed it, {since}"
        case "stalled":
            return f"{process} claimed it, {since}, and gives no sign of life though it exists: it may be stopped"
        case "left":
            return f"{process} claimed it, {since}, and left without working on it"
        case "died":
            return f"{process} claimed it, {since}, and died before it had ended"
        case _:
            return f"{process} claimed it, {since}, and its lease is over; whether it lives cannot be told from here"


def explain_resume(status: RunStatus) -> str:
    """What `resume` would do with it."""
    run, holder = status.run, status.holder
    if status.finished:
        if run.outcome == "error" and run.reason != "replay_divergence":
            return "only `resume --errors` runs it again"
        if run.outcome == "skipped" and run.reason == "cancelled":
            return "only `resume --cancelled` runs it"
        return "`resume` leaves it alone"
    order = status.standing.command
    if order is not None and order.verb == "cancel":
        return "`resume` skips it, because the sweep is cancelled; `resume --cancelled` runs it"
    if holder is not None and holder.state == "running":
        return "`resume` leaves it to that process as long as it lives"
    if holder is not None and holder.state == "stalled":
        return "`resume` takes it over; should that process wake up and end it first, its result counts"
    if run.reason == "budget":
        return "`resume` runs it, if its caps leave room: a higher one may be given"
    lifted = ", and lifts the pause" if order is not None else ""
    return f"`resume` runs it{lifted}"


def why_lines(status: RunStatus) -> Iterator[str]:
    """For people; nothing in it is a control character."""
    run, standing = status.run, status.standing
    yield f"{one_line(standing.sweep.name)}/{run.position}, repetition {run.repetition}: {explain_unfinished(status)}"
    if standing.command is not None and not status.finished:
        yield f"the sweep is {describe_command(standing.command)}"
    workers = {worker.id: worker for worker in standing.workers}
    for attempt in status.attempts:
        worker = workers.get(attempt.worker_id)
        by = "" if worker is None else f" by process {worker.pid} on {one_line(worker.host)} ({worker.state})"
        message = attempt.detail.get("message")
        ended = "" if attempt.ended_at is None else f", {format_time(attempt.ended_at)}"
        yield (
            f"attempt {attempt.number}, claimed {format_time(attempt.claimed_at)}{by}: "
            f"{_format_outcome(attempt.outcome, attempt.reason)}{ended}"
            + (f": {one_line(str(message))}" if message else "")
        )
    yield explain_resume(status)


def why_to_json(status: RunStatus) -> dict[str, Json]:
    """As a JSON object."""
    run = status.run
    return {
        "schema": SCHEMA,
        "sweep": status.standing.sweep.name,
        "position": run.position,
        "finished": status.finished,
        "outcome": run.outcome,
        "reason": run.reason,
        "because": explain_unfinished(status),
        "resume": explain_resume(status),
        "attempts": [
            {
                "number": attempt.number,
                "claimedAt": format_time(attempt.claimed_at),
                "outcome": attempt.outcome,
                "reason": attempt.reason,
                "message": attempt.detail.get("message"),
            }
            for attempt in status.attempts
        ],
    }


def _format_outcome(outcome: str | None, reason: str | None) -> str:
    if outcome is None:
        return "no outcome"
    return outcome if reason is None else f"{outcome}({one_line(reason)})"
