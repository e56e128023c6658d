"""Explains why one run is unfinished: its process, its wait, its attempts, and the effect of `resume`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
    """One run at one moment, with its sweep, attempts and process."""

    at: int
    """Microseconds UTC."""
    run: RunRecord
    standing: Standing
    attempts: tuple[AttemptRecord, ...]
    holder: Worker | None
    """Process of the last attempt, if that attempt has not ended."""
    activity: Activity | None
    """Current activity of the holder; None unless the attempt is running."""

    @property
    def finished(self) -> bool:
        """Return whether the run has a final result."""
        return self.run.outcome is not None and not self.run.again


def run_status_of(
    reader: Reader, sweep: SweepRow, position: int, *, now: int, is_alive: Callable[[WorkerRow], bool | None]
) -> RunStatus:
    """Read one run at *now* (microseconds UTC).

    Raises:
        UsageError: the sweep has no such position.
    """
    run = reader.find_run(sweep.id, position)
    standing = standing_of(reader, sweep, now=now, is_alive=is_alive)
    attempts = tuple(reader.list_attempts(run.run_id))
    last = attempts[-1] if attempts and attempts[-1].outcome is None else None
    running = reader.list_running_attempts(sweep.id) if last else ()
    current = next((attempt for attempt in running if last and attempt.attempt_id == last.attempt_id), None)
    return RunStatus(
        at=now,
        run=run,
        standing=standing,
        attempts=attempts,
        holder=next((worker for worker in standing.workers if last and worker.id == last.worker_id), None),
        activity=None if current is None else activity_of(current, now),
    )


HOLDER_STATES: Mapping[str, str] = {
    "running": "",
    "stalled": ", and has not renewed its lease although it still exists: it may be stopped",
    "left": ", and left without working on it",
    "died": ", and died before finishing it",
    "unknown": ", and its lease has expired; whether it is alive cannot be seen from this machine",
}
"""By the state of a run's process: the end of the sentence on its claim."""

RESUME_WITH_HOLDER: Mapping[str, str] = {
    "running": "`resume` leaves it to that process while that process is alive",
    "stalled": "`resume` takes it over; if that process continues and finishes first, its result counts",
}
"""By the state of a run's process: the effect of `resume`, where the process decides it."""


def explain_unfinished(status: RunStatus) -> str:
    """Explain why the run is unfinished, or state that it is finished."""
    run = status.run
    if status.finished:
        return f"it is finished: {_format_outcome(run.outcome, run.reason)}"
    if status.holder is not None:
        return _describe_claim(status, status.holder)
    if run.outcome is not None:
        return f"{_format_outcome(run.outcome, run.reason)} is not a final result"
    return "it has not been claimed yet"


def explain_resume(status: RunStatus) -> str:
    """Explain what `resume` would do with the run."""
    run, holder, command = status.run, status.holder, status.standing.command
    if status.finished:
        return _explain_resume_when_final(run)
    if command is not None and command.verb == "cancel":
        return "`resume` skips it, because the sweep is cancelled; `resume --cancelled` runs it"
    if holder is not None and holder.state in RESUME_WITH_HOLDER:
        return RESUME_WITH_HOLDER[holder.state]
    if run.reason == "budget":
        return "`resume` runs it if the caps leave room; you may raise them"
    return "`resume` runs it" + (", and lifts the pause" if command is not None else "")


def why_lines(status: RunStatus) -> Iterator[str]:
    """Yield the printed explanation, without control characters."""
    run, standing = status.run, status.standing
    yield f"{one_line(standing.sweep.name)}/{run.position}, repetition {run.repetition}: {explain_unfinished(status)}"
    if standing.command is not None and not status.finished:
        yield f"the sweep is {describe_command(standing.command)}"
    workers = {worker.id: worker for worker in standing.workers}
    for attempt in status.attempts:
        worker = workers.get(attempt.worker_id)
        process = "" if worker is None else f" by process {worker.pid} on {one_line(worker.host)} ({worker.state})"
        message = attempt.detail.get("message")
        ended = "" if attempt.ended_at is None else f", {format_time(attempt.ended_at)}"
        yield (
            f"attempt {attempt.number}, claimed {format_time(attempt.claimed_at)}{process}: "
            f"{_format_outcome(attempt.outcome, attempt.reason)}{ended}"
            + (f": {one_line(str(message))}" if message else "")
        )
    yield explain_resume(status)


def why_to_json(status: RunStatus) -> dict[str, Json]:
    """Return the explanation as a JSON object."""
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


def _describe_claim(status: RunStatus, holder: Worker) -> str:
    process = f"process {holder.pid} on {one_line(holder.host)}"
    activity = status.activity
    if holder.state == "running" and activity is not None:
        begun = "is working on it" if activity.begun else "has claimed it"
        waited = format_span(max(0, status.at - activity.since) / 1_000_000)
        until = "" if activity.until is None else f", until {format_time(activity.until)}"
        return (
            f"{process} {begun}; it has waited for {activity.waits_for} since {format_time(activity.since)} "
            f"({waited}){until}"
        )
    return f"{process} claimed it at {format_time(status.attempts[-1].claimed_at)}{HOLDER_STATES[holder.state]}"


def _explain_resume_when_final(run: RunRecord) -> str:
    if run.outcome == "error" and run.reason != "replay_divergence":
        return "only `resume --errors` runs it again"
    if run.outcome == "skipped" and run.reason == "cancelled":
        return "only `resume --cancelled` runs it"
    return "`resume` leaves it alone"
