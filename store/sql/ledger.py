"""The ledger: writes the record of a sweep. Redacts, caps, encodes and batches, then hands rows to the writer.

The only place that redacts text on its way into the store. Appending never waits: the writer takes events and outcomes,
and acknowledges an outcome once it is durable.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from store.documents.encoding import MAX_STRING_CHARACTERS, encode_json
from store.documents.text import to_column
from store.events import CallSent, Event, Incident, Json, Waited, WorkStarted, build_payload
from store.rows import Claim, Ending, FileChange
from store.secrets.redactor import Redactor
from store.secrets.scanner import mask_secrets
from store.segments import Segment, Segmenter
from store.sql.blobs import put_blob
from store.sql.statements import load_statement
from store.sql.writer import QueuedTransaction, Writer

INLINE_PAYLOAD_CHARACTERS = 2048
"""Longest payload, in characters, that is stored in the event's row; a longer one goes to a blob."""
INLINE_FIELD_CHARACTERS = 200
"""Longest field, in characters, that stays in the row when its payload goes to a blob."""
INLINE_REPEATED_CHARACTERS = 256
"""The same limit for payloads that every run of a cell repeats: a blob is shared, so their text is stored once."""
MAX_CACHED_EVENTS = 256
"""Size of the cache of encoded events, which later runs of a cell repeat."""
MAX_PACKET_ROWS = 500
"""Largest number of event rows that one statement writes."""
INT_MAX = 2**63 - 1

EventColumns = tuple[int, int, int, str, str, str | None]
"""The columns attempt, seq, at, kind and payload, and the text of the blob or None."""


class SqliteLedger:
    """The ledger of one process in one sweep; implements `orchestrator.engine.ports.Ledger`.

    Args:
        writer: commits the rows; after it has failed, every append raises `StoreFailed`.
        redactor: removes secrets from every text.
        sweep_id: the sweep.
        worker_id: this process.
        wall: microseconds since 1970 UTC.
        monotonic: seconds; only differences have a meaning.
        on_acknowledged: called with every ending that is durable, and whether its result counts. It does not count if
            another attempt at the run was first (fencing): then the outcome and its cost are kept without a result.
    """

    def __init__(
        self,
        writer: Writer,
        redactor: Redactor,
        *,
        sweep_id: int,
        worker_id: int,
        wall: Callable[[], int],
        monotonic: Callable[[], float],
        on_acknowledged: Callable[[Ending, bool], None],
    ) -> None:
        self._writer = writer
        self._redactor = redactor
        self._sweep_id = sweep_id
        self._worker_id = worker_id
        self._wall = wall
        self._monotonic = monotonic
        self._on_acknowledged = on_acknowledged
        self._logs: dict[int, SqliteAttemptLog] = {}
        # Kept beyond the end of an attempt, so that a late event never reuses the key of an earlier one.
        self._seqs: dict[int, int] = {}
        self._encoded_events: dict[Event, tuple[str, str | None]] = {}
        self._packet: list[EventColumns] = []
        self._ticket: QueuedTransaction | None = None

    def open_log(self, claim: Claim) -> SqliteAttemptLog:
        """Open the log of one attempt. Returns the same object until the attempt is finished."""
        log = self._logs.get(claim.attempt_id)
        if log is None:
            # The time since the claim is known by the wall clock only; from here on the monotonic clock counts.
            late_ms = max(0, self._wall() - claim.claimed_at) // 1000 if claim.claimed_at else 0
            log = SqliteAttemptLog(self, self._redactor, claim.attempt_id, late_ms, self._monotonic)
            self._logs[claim.attempt_id] = log
        return log

    def finish_attempt(self, ending: Ending) -> None:
        """Record the ending of an attempt. The first of several endings wins.

        Raises:
            ValueError: a score outside [0, 1], or an outcome without the reason it needs.
            StoreFailed: the writer has failed.
        """
        write = self._prepare_ending(ending)
        for path, size in write.not_kept:
            self.open_log(ending.claim).append_event(
                Incident(name="file_not_kept", detail={"path": path, "bytes": size})
            )
        log = self._logs.pop(ending.claim.attempt_id, None)
        if log is not None:
            log.flush()
        self._writer.submit(
            write,
            rows=2 + len(ending.verdicts) + len(ending.changes),
            size=sum(len(change.content) for change in ending.changes if change.content is not None),
            on_durable=lambda accepted: self._on_acknowledged(ending, accepted),
            label="outcomes",
        )

    def record_notice(self, kind: str, payload: dict[str, Json]) -> None:
        """Record a notice: an event of the sweep, not of an attempt.

        Raises:
            StoreFailed: the writer has failed.
        """
        text = encode_json(self._redactor.redact_json(payload))
        row = (self._sweep_id, self._worker_id, self._wall(), kind, text)
        self._writer.submit(lambda connection: connection.execute(load_statement("insert_notice"), row), size=len(text))

    async def wait_for_backlog(self) -> None:
        """Wait until the writer's backlog is small again (backpressure). Usually returns at once.

        Raises:
            StoreFailed: the writer has failed.
        """
        await self._writer.wait_for_backlog()

    def encode_event(self, event: Event) -> tuple[str, str | None]:
        """Encode an event without secrets: the payload for its row, and the whole payload if that goes to a blob."""
        if not isinstance(event, _REPEATED_EVENTS):
            return _split_payload(self._redact_event(event), INLINE_PAYLOAD_CHARACTERS)
        found = self._encoded_events.get(event)
        if found is None:
            if len(self._encoded_events) >= MAX_CACHED_EVENTS:
                self._encoded_events.clear()
            found = self._encoded_events[event] = _split_payload(self._redact_event(event), INLINE_REPEATED_CHARACTERS)
        return found

    def append_row(self, attempt_id: int, at: int, kind: str, text: str, long: str | None) -> None:
        """Add an event's row to the open packet; *long* is the whole payload if *text* holds only its short fields.

        Rows may overtake other queued transactions but never fall behind: events are written before their outcome.

        Raises:
            StoreFailed: the writer has failed.
        """
        seq = self._seqs[attempt_id] = self._seqs.get(attempt_id, 0) + 1
        row = (attempt_id, seq, at, kind, text, long)
        size = len(text) + (len(long) if long else 0)
        ticket = self._ticket
        if ticket is None or ticket.taken or len(self._packet) >= MAX_PACKET_ROWS:
            packet = self._packet = [row]
            self._ticket = self._writer.submit(lambda connection: _insert_events(connection, packet), size=size)
        else:
            self._packet.append(row)
            self._writer.grow_queued(ticket, 1, size)

    def _redact_event(self, event: Event) -> dict[str, Json]:
        clean, fields = self._redactor, build_payload(event)
        # Field names need no redaction and most fields are plain: walking only nested ones halves the cost of an event.
        for name, value in fields.items():
            if type(value) is str:
                fields[name] = clean.redact_text(value)
            elif type(value) is not int:
                fields[name] = clean.redact_json(value)
        return fields

    def _prepare_ending(self, ending: Ending) -> _EndingTransaction:
        for what, score in (("composite", ending.composite), *((v.verifier, v.score) for v in ending.verdicts)):
            if score is not None and not 0 <= score <= 1:
                raise ValueError(f"{what}: a score must be between 0 and 1, got {score}")
        if ending.reason is None and ending.outcome in ("budget_exceeded", "error", "skipped"):
            raise ValueError(f"an outcome {ending.outcome!r} needs a reason")
        claim = ending.claim
        reason = self._redact_column(ending.reason)
        outcome: dict[str, Any] = {
            "attempt_id": claim.attempt_id,
            "run_id": claim.run_id,
            "outcome": ending.outcome,
            "reason": reason,
            "started_at": _limit_number(ending.started_at),
            "ended_at": _limit_number(ending.ended_at),
            "decision_status": ending.decision_status,
            "detail": encode_json(self._redactor.redact_json(ending.detail)),
        }
        for name, value in ending.measured.to_columns().items():
            outcome[name] = self._redact_column(value) if isinstance(value, str) else _limit_number(value)
        result = {
            "run_id": claim.run_id,
            "attempt_id": claim.attempt_id,
            "supersedes": claim.supersedes,
            "sweep_id": claim.sweep_id,
            "cell_id": claim.cell_id,
            "outcome": ending.outcome,
            "reason": reason,
            "judged": int(ending.judged),
            "again": int(ending.again),
            "composite": ending.composite,
            "at": ending.ended_at,
            "basis": "run" if claim.supersedes is None else "retry",
        }
        names = _number_duplicates(self._redactor.redact_text(verdict.verifier) for verdict in ending.verdicts)
        verdicts = [
            (
                claim.attempt_id,
                to_column(name),
                to_column(verdict.kind),
                verdict.verdict,
                verdict.score,
                encode_json(self._redactor.redact_json(verdict.detail)),
            )
            for name, verdict in zip(names, ending.verdicts, strict=True)
        ]
        paths = _number_duplicates(self._redactor.redact_text(change.path) for change in ending.changes)
        return _EndingTransaction(
            self._redactor, outcome, result, verdicts, list(zip(paths, ending.changes, strict=True))
        )

    def _redact_column(self, text: str | None) -> str | None:
        return None if text is None else to_column(self._redactor.redact_text(text))


class SqliteAttemptLog:
    """The log of one running attempt; the ledger opens it."""

    def __init__(
        self, ledger: SqliteLedger, redactor: Redactor, attempt_id: int, late_ms: int, monotonic: Callable[[], float]
    ) -> None:
        opened = monotonic()
        self._ledger = ledger
        self._redactor = redactor
        self._attempt_id = attempt_id
        self._clock_ms: Callable[[], int] = lambda: late_ms + int((monotonic() - opened) * 1000)
        self._segmenter = Segmenter(redactor, self._clock_ms)

    def append_event(self, event: Event) -> None:
        """Append an event, after any answer text that is still held back.

        Raises:
            StoreFailed: the writer has failed; stop producing.
        """
        # These two may occur in the middle of an answer, where a flush could split a secret in two.
        if not isinstance(event, _MID_ANSWER_EVENTS):
            self.flush()
        text, long = self._ledger.encode_event(event)
        self._ledger.append_row(self._attempt_id, self._clock_ms(), event.kind, text, long)

    def append_delta(self, stream: Literal["text", "reasoning"], request: int, text: str) -> None:
        """Append a delta of an answer; deltas become segments that keep every delta's time and length.

        Raises:
            StoreFailed: the writer has failed; stop producing.
        """
        self._write_segments(self._segmenter.add_delta(stream, request, text))

    def flush(self) -> None:
        """Write the answer text that is still held back.

        Raises:
            StoreFailed: the writer has failed; stop producing.
        """
        self._write_segments(self._segmenter.flush())

    def _write_segments(self, segments: Iterable[Segment]) -> None:
        for segment in segments:
            text, long = _split_payload(segment.payload, INLINE_PAYLOAD_CHARACTERS)
            self._ledger.append_row(self._attempt_id, segment.at, segment.kind, text, long)


class _EndingTransaction:
    """The transaction that writes an ending; its result is True if the attempt's result counts."""

    def __init__(
        self,
        redactor: Redactor,
        outcome: dict[str, Any],
        result: dict[str, Any],
        verdicts: list[tuple[Any, ...]],
        changes: list[tuple[str, FileChange]],
    ) -> None:
        self._redactor = redactor
        self._outcome = outcome
        self._result = result
        self._verdicts = verdicts
        self._changes = changes
        self.not_kept = [
            (path, len(change.content))
            for path, change in changes
            if change.content and len(change.content) > MAX_STRING_CHARACTERS
        ]
        """Files too large to store, with their sizes in bytes."""

    def __call__(self, connection: sqlite3.Connection) -> bool:
        if not connection.execute(load_statement("insert_outcome"), self._outcome).rowcount:
            return False
        if self._verdicts:
            connection.executemany(load_statement("insert_verdict"), self._verdicts)
        attempt_id = self._outcome["attempt_id"]
        for path, change in self._changes:
            content = self._redact_content(change.content)
            row = (
                attempt_id,
                to_column(path),
                change.change,
                change.mode,
                None if change.link is None else to_column(self._redactor.redact_text(change.link)),
                None if content is None else put_blob(connection, content),
            )
            connection.execute(load_statement("insert_file_change"), row)
        return connection.execute(load_statement("insert_result"), self._result).rowcount == 1

    def _redact_content(self, content: bytes | None) -> bytes | None:
        if content is None or len(content) > MAX_STRING_CHARACTERS:
            return None
        try:
            text = content.decode()
        except UnicodeDecodeError:
            # Not text: latin-1 keeps every byte, and the redactor still finds the exact values in it.
            return self._redactor.redact_text(content.decode("latin-1")).encode("latin-1", "replace")
        return mask_secrets(self._redactor.redact_text(text)).encode()


_MID_ANSWER_EVENTS = (Incident, Waited)
_REPEATED_EVENTS = (WorkStarted, CallSent)
"""Events whose payload is mostly the same for all runs of a cell."""


def _limit_number(number: int | None) -> int | None:
    """Limit a number to the range of a column: some numbers come from a provider and may be of any size."""
    return None if number is None else max(-INT_MAX, min(INT_MAX, number))


def _insert_events(connection: sqlite3.Connection, packet: list[EventColumns]) -> None:
    rows: list[tuple[Any, ...]] = list(packet)
    blobs: dict[str, int] = {}
    for place, (*columns, long) in enumerate(packet):
        if long is None:
            continue
        blob_id = blobs.get(long)
        if blob_id is None:
            blob_id = blobs[long] = put_blob(connection, mask_secrets(long).encode("ascii"))
        rows[place] = (*columns, blob_id)
    connection.executemany(load_statement("insert_event"), rows)


def _split_payload(value: Mapping[str, Json], at_most: int) -> tuple[str, str | None]:
    """Encode a payload for its row, and the whole of it for a blob if it is longer than *at_most* characters."""
    text = encode_json(value)
    return (text, None) if len(text) <= at_most else (_encode_short_fields(value), text)


def _encode_short_fields(value: Mapping[str, Json]) -> str:
    """Encode the short fields of a long payload: they stay in the row, so that most queries need no blob."""
    kept: dict[str, Json] = {}
    room = INLINE_PAYLOAD_CHARACTERS
    for name, field in value.items():
        if not isinstance(field, str | int | float) or (isinstance(field, float) and not math.isfinite(field)):
            continue
        size = len(encode_json({name: field}))
        if size <= INLINE_FIELD_CHARACTERS and size <= room:
            kept[name] = field
            room -= size
    return encode_json(kept)


def _number_duplicates(names: Iterable[str]) -> list[str]:
    """Number the names that redaction has made equal; the order stays."""
    taken: set[str] = set()
    result: list[str] = []
    for name in names:
        free, number = name, 1
        while free in taken:
            number += 1
            free = f"{name}~{number}"
        taken.add(free)
        result.append(free)
    return result
