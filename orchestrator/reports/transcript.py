"""One run in full: its outcome, the verdicts, its attempts, and the events of one attempt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from orchestrator.reports import decision, runs_jsonl
from orchestrator.reports.phrases import format_error
from orchestrator.text import make_harmless, one_line
from store.errors import UsageError
from store.events import Json
from store.rows import CellRecord, EventRow, FileChange, RunRecord, SweepRow
from store.secrets.scanner import mask_secrets

if TYPE_CHECKING:
    from store.records import AttemptRecord
    from store.sql.reader import Reader

SCHEMA = "evalctl.run/1"

MAX_TEXT_CHARS = 2000
"""Characters of one text that are shown without `--full`."""


def choose_attempt(attempts: Iterable[AttemptRecord], number: int | None) -> AttemptRecord | None:
    """Choose attempt *number*; by default the attempt that counts, else the last; None if there is no attempt.

    Raises:
        UsageError: the run has no attempt of that number.
    """
    all_attempts = list(attempts)
    if number is None:
        return next((attempt for attempt in all_attempts if attempt.counts), all_attempts[-1] if all_attempts else None)
    match = next((attempt for attempt in all_attempts if attempt.number == number), None)
    if match is None:
        raise UsageError(f"the run has no attempt {number}", f"It has {len(all_attempts)}.")
    return match


def transcript_to_json(
    reader: Reader, sweep: SweepRow, run: RunRecord, cell: CellRecord, number: int | None
) -> dict[str, Json]:
    """Return the run as a JSON object, with the events of the chosen attempt."""
    attempts = reader.list_attempts(run.run_id)
    chosen = choose_attempt(attempts, number)
    return {
        "schema": SCHEMA,
        **runs_jsonl.run_to_json(sweep, run, cell),
        "attemptList": [
            {
                "number": attempt.number,
                "counts": attempt.counts,
                "claimedAt": attempt.claimed_at,
                "outcome": attempt.outcome,
                "reason": attempt.reason,
                "detail": dict(attempt.detail),
            }
            for attempt in attempts
        ],
        "attempt": chosen.number if chosen else None,
        "changes": [
            {"path": change.path, "change": change.change, "bytes": _change_size(change)}
            for change in (reader.iterate_file_changes(chosen.attempt_id) if chosen else ())
        ],
        "events": [
            {"seq": event.seq, "at": event.at, "kind": event.kind, **event.payload}
            for event in (reader.iterate_events(chosen.attempt_id) if chosen else ())
        ],
    }


def transcript_lines(
    reader: Reader, sweep: SweepRow, run: RunRecord, cell: CellRecord, *, number: int | None, full: bool
) -> Iterator[str]:
    """Yield the printed run, without control characters; long texts are cut unless *full*."""
    attempts = reader.list_attempts(run.run_id)
    chosen = choose_attempt(attempts, number)
    name = f"{cell.case_id}:{cell.variant}" if cell.variant else cell.case_id
    ended = _format_ending(run.outcome, run.reason)
    yield f"{sweep.name}/{run.position}: {one_line(name)}, repetition {run.repetition}: {ended}"
    yield from _figure_lines(run)
    yield from decision.decision_lines(run.detail.get("decision"), full=full)
    yield from _verdict_lines(run, full=full)
    for attempt in attempts:
        counts = "counts" if attempt.counts else "does not count"
        message = attempt.detail.get("message")
        message_text = f": {format_error(attempt.reason, str(message), MAX_TEXT_CHARS)}" if message else ""
        yield f"attempt {attempt.number}: {_format_ending(attempt.outcome, attempt.reason)}, {counts}{message_text}"
    if chosen is None:
        yield "it has no attempt yet"
        return
    for change in reader.iterate_file_changes(chosen.attempt_id):
        size = _change_size(change)
        yield f"file {change.change}: {one_line(change.path)}{'' if size is None else f' ({size:,} bytes)'}"
    yield f"--- attempt {chosen.number}, seconds since it was claimed ---"
    yield from _event_lines(reader.iterate_events(chosen.attempt_id), full=full)


def _format_ending(outcome: str | None, reason: str | None) -> str:
    if outcome is None:
        return "no result yet"
    return outcome if reason is None else f"{outcome}({one_line(reason)})"


def _figure_lines(run: RunRecord) -> Iterator[str]:
    measured = runs_jsonl.measurements_to_json(run)
    if measured:
        yield "measured: " + ", ".join(f"{name} {value:,}" for name, value in measured.items())
    incidents = run.detail.get("incidents")
    if incidents:
        yield "incidents: " + ", ".join(f"{one_line(name)} {times}" for name, times in incidents.items())


def _verdict_lines(run: RunRecord, *, full: bool) -> Iterator[str]:
    for verdict in run.verdicts:
        yield f"verifier {one_line(verdict.verifier)} ({one_line(verdict.kind)}): {verdict.verdict}"
        for name, value in verdict.detail.items():
            text = value if isinstance(value, str) else json.dumps(value)
            yield from _text_block(f"{one_line(name)}: ", text, full=full)


def _event_lines(events: Iterable[EventRow], *, full: bool) -> Iterator[str]:
    def piece_key(event: EventRow) -> tuple[str, Json] | int:
        # segments of one streamed text share a key; every other event has its own
        return (event.kind, event.payload.get("request")) if event.kind in ("text", "reasoning") else event.seq

    for _, group in groupby(events, piece_key):
        segments = list(group)
        first = segments[0]
        head = f"{first.at / 1000:>9.3f}  {one_line(first.kind)}"
        if first.kind in ("text", "reasoning"):
            yield from _text_block(
                f"{head}  ", "".join(str(event.payload.get("text", "")) for event in segments), full=full
            )
        else:
            yield from _format_event(head, first.payload, full=full)


LONG_FIELDS = ("instructions", "prompt", "arguments", "output", "text", "message", "detail")
"""Fields of an event that are printed on lines of their own."""


def _format_event(head: str, payload: Mapping[str, Json], *, full: bool) -> Iterator[str]:
    """Yield an event: its short fields on one line, the long ones below."""
    short = [
        f"{one_line(name)}={one_line(mask_secrets(value if isinstance(value, str) else json.dumps(value)))}"
        for name, value in payload.items()
        if name not in LONG_FIELDS
    ]
    yield f"{head}  {' '.join(short)}".rstrip()
    for name in LONG_FIELDS:
        value = payload.get(name)
        if value in (None, "", {}) or (name == "instructions" and not full):
            continue
        yield from _text_block(f"{'':>11}{name}: ", value if isinstance(value, str) else json.dumps(value), full=full)


def _text_block(label: str, text: str, *, full: bool) -> Iterator[str]:
    """Yield a text of several lines, indented below its label."""
    text = mask_secrets(text)  # before the cut, which could split a secret in two
    excerpt = text if full or len(text) <= MAX_TEXT_CHARS else text[:MAX_TEXT_CHARS]
    first, *rest = make_harmless(excerpt).rstrip("\n").split("\n")
    yield f"{label}{first}"
    yield from (f"{'':>13}{line}" for line in rest)
    if len(excerpt) < len(text):
        yield f"{'':>13}… {len(text) - len(excerpt):,} more characters: --full"


def _change_size(change: FileChange) -> int | None:
    return len(change.content) if change.content is not None else None
