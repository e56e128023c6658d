"""The part of a sweep's standing that changes by the second: waits, rate, changes of limits, and commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import attrs

from orchestrator.engine.control.commands import CONTROL_COMMANDS
from orchestrator.reports.conditions import format_time
from orchestrator.reports.phrases import format_requests
from orchestrator.reports.status.doing import Activity, activity_of
from orchestrator.reports.status.standing import Standing, standing_of
from orchestrator.text import one_line

if TYPE_CHECKING:
    from store.events import Json
    from store.records import CommandRow, NoticeRow
    from store.rows import SweepRow, WorkerRow
    from store.sql.reader import Reader

RATE_WINDOW_US = 600_000_000
"""Microseconds over which the rate is measured."""
MAX_CHANGES = 6
"""Newest changes of limits, stalls and commands that are shown, of each kind."""
LIMIT_VERBS = {"limit_cut": "cut to", "limit_raised": "raised to"}
"""By kind of notice: the verb of a change of the AIMD limiter."""


@attrs.frozen(kw_only=True)
class Glance:
    """A sweep at one moment, with its running attempts."""

    at: int
    """Microseconds UTC."""
    standing: Standing
    activities: tuple[Activity, ...]
    """Activities of the attempts of running processes."""
    rate: float | None
    """Final results per minute; None if no process is running."""
    limits: tuple[NoticeRow, ...]
    stalls: tuple[NoticeRow, ...]
    commands: tuple[CommandRow, ...]

    @property
    def left_s(self) -> float | None:
        """Seconds until the sweep is done at this rate; None if it is unknown."""
        if not self.rate or self.standing.state != "running":
            return None
        return self.standing.remaining / self.rate * 60

    @property
    def over(self) -> bool:
        """Return whether no run is left and no process works on the sweep any more."""
        standing = self.standing
        return not standing.remaining and (standing.state == "done" or not standing.in_flight)


def glance_of(reader: Reader, sweep: SweepRow, *, now: int, is_alive: Callable[[WorkerRow], bool | None]) -> Glance:
    """Read the sweep at *now* (microseconds UTC); *is_alive* returns None for a process it cannot see."""
    standing = standing_of(reader, sweep, now=now, is_alive=is_alive)
    working = {worker.id: worker.started_at for worker in standing.workers if worker.state == "running"}
    rate = None
    if working:
        since = max(now - RATE_WINDOW_US, min(working.values()))
        rate = reader.count_recent_results(sweep.id, since) / max(1.0, (now - since) / 60_000_000)
    notices = reader.list_notices(sweep.id)
    return Glance(
        at=now,
        standing=standing,
        activities=tuple(
            activity_of(doing, now) for doing in reader.list_running_attempts(sweep.id) if doing.worker_id in working
        ),
        rate=rate,
        limits=tuple(_drop_unchanged(notice for notice in notices if notice.kind in LIMIT_VERBS))[-MAX_CHANGES:],
        stalls=tuple(notice for notice in notices if notice.kind == "stalled")[-MAX_CHANGES:],
        commands=tuple(row for row in reader.list_commands(sweep.id) if row.verb in CONTROL_COMMANDS)[-MAX_CHANGES:],
    )


def glance_to_json(glance: Glance) -> dict[str, Json]:
    """Return the keys that this adds to the JSON object of the standing."""
    return {
        "at": format_time(glance.at),
        "ratePerMinute": glance.rate,
        "leftSeconds": glance.left_s,
        "waiting": [
            {
                "position": activity.position,
                "for": activity.waits_for,
                "since": format_time(activity.since),
                "until": None if activity.until is None else format_time(activity.until),
            }
            for activity in glance.activities
        ],
        "limits": [{"at": format_time(row.at), "kind": row.kind, **row.payload} for row in glance.limits],
        "stalls": [{"at": format_time(row.at), **row.payload} for row in glance.stalls],
        "orders": [
            {"at": format_time(row.at), "order": row.verb, "who": row.who, "why": row.why} for row in glance.commands
        ],
    }


def _drop_unchanged(notices: Iterable[NoticeRow]) -> Iterator[NoticeRow]:
    """Drop notices that leave a process's limit unchanged: in a long overload they would hide all others."""
    last: dict[int | None, Json] = {}
    for notice in notices:
        limit = notice.payload.get("limit")
        if notice.worker_id not in last or last[notice.worker_id] != limit:
            last[notice.worker_id] = limit
            yield notice


def glance_lines(glance: Glance) -> Iterator[str]:
    """Yield the lines to print after those of the standing, without control characters."""
    if glance.rate is not None:
        yield f"rate: {glance.rate:,.1f} runs a minute" + (
            "" if glance.left_s is None else f", about {format_span(glance.left_s)} left"
        )
    yield from (f"in flight: {text}" for text in waiting_lines(glance))
    for notice in glance.limits:
        limit = notice.payload.get("limit")
        requests = "request" if limit == 1 else "requests"
        yield f"limit: {LIMIT_VERBS[notice.kind]} {limit} {requests} at once, {format_time(notice.at)}"
    for notice in glance.stalls:
        waits = one_line(str(notice.payload.get("waits") or "work that did not end"))
        why = notice.payload.get("why")
        after = f"after {notice.payload.get('seconds')} s" if why is None else f"not begun: {one_line(str(why))}"
        yield f"stalled: {waits} {after}, {format_time(notice.at)}"
    for row in glance.commands:
        yield f"command: {row.verb} by {one_line(row.who)}, {format_time(row.at)}" + (
            f" ({one_line(row.why)})" if row.why else ""
        )


def waiting_lines(glance: Glance) -> Iterator[str]:
    """Yield a line per wait, the most common first: `3 wait for an answer from openai#1 (longest 12 s)`."""
    groups: dict[str, list[Activity]] = {}
    for activity in glance.activities:
        groups.setdefault(activity.waits_for, []).append(activity)
    for waits_for, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        ends = [activity.until for activity in group if activity.until is not None]
        if ends:
            when = f"the next in {format_span(max(0, min(ends) - glance.at) / 1_000_000)}"
        else:
            when = f"longest {format_span(max(0, glance.at - min(activity.since for activity in group)) / 1_000_000)}"
        plural = f"their {waits_for.removeprefix('its ')}" if waits_for.startswith("its ") else waits_for
        yield f"1 waits for {waits_for} ({when})" if len(group) == 1 else f"{len(group)} wait for {plural} ({when})"


def heartbeat_line(glance: Glance) -> str:
    """Return the progress line for a stream that is not a terminal. It stays equal while only time passes."""
    standing = glance.standing
    parts = [f"{standing.state}: {standing.sweep.runs - standing.remaining} of {standing.sweep.runs} done"]
    for tally in standing.tallies:
        word = tally.outcome if tally.reason is None else f"{tally.outcome}({one_line(tally.reason)})"
        parts.append(f"{tally.count} {word}")
    counts = Counter(activity.waits_for for activity in glance.activities)
    parts += [
        f"{count} {'waits' if count == 1 else 'wait'} for {waits_for}" for waits_for, count in sorted(counts.items())
    ]
    parts.append(format_requests(standing.spent.calls, standing.spent.tokens))
    return ", ".join(parts)


def format_span(seconds: float) -> str:
    """Format a duration: `12 s`, `14 min`, `3 h 20 min`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
