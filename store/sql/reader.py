"""Reads the store: synchronous, read-only, a page at a time, and one state of the world throughout.

A reader sees what was there when it was opened (or last refreshed): rows above that high-water mark are left out, so
that the parts of a report agree while a sweep goes on. No statement stays open between two pages: an open one would
keep the writer from trimming its log.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import attrs

from store.documents.text import from_column
from store.errors import StoreError, StoreRefused, UsageError
from store.records import AttemptRecord, ControlRow, Coverage, Doing, NoticeRow, Tally, WorkerAccount, WorkerState
from store.rows import (
    Amount,
    CellRecord,
    EventRow,
    FileChange,
    Judgement,
    RunRecord,
    SweepRow,
)
from store.sql.blobs import get_blob
from store.sql.database import SCHEMA, examine, read_only
from store.sql.statements import statement
from store.tallies import CellTally, StartGaps, VerifierCount

if TYPE_CHECKING:
    from store.events import Json

T = TypeVar("T")

PAGE = 500
"""Rows that are fetched at once."""
CELL_PAGE = 200
"""Cells that are summed up at once, each with the times of all its runs."""
EVENT_PAGE = 100
"""Events that are fetched at once; each may bring a blob along."""
SHOWN = 10
"""Names that an error lists."""

_TEXT = ("reason", "cost_source", "model_resolved", "command", "path", "link", "verifier", "kind", "who", "why")
"""Columns of free text, escaped by the writer where SQLite could not hold them."""


@attrs.frozen(kw_only=True)
class Snapshot:
    """The highest ids that a reader sees, table by table."""

    sweep: int
    attempt: int
    result: int
    notice: int
    control: int


class Reader:
    """An open store, for reading.

    Outcomes, events, files and spending are read as they are at the time of the call, for attempts within the
    snapshot; everything else is the snapshot's.

    Args:
        path: the store's file.

    Raises:
        StoreRefused: there is no store, or the file is none, or one that this version cannot read.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        state = examine(self.path)
        if state == "absent":
            raise StoreRefused(
                str(self.path),
                "there is no store here yet",
                "The first `evalctl run SUITE` makes one; another one is named by --store FILE.",
            )
        if state == "older":
            raise StoreRefused(
                str(self.path),
                f"was written by an older evalctl; this one reads schema {SCHEMA}",
                "The next `evalctl run` or `evalctl resume` brings it up to date, and keeps a copy.",
            )
        try:
            self._connection = sqlite3.connect(read_only(self.path), uri=True, isolation_level=None)
        except sqlite3.Error as error:
            raise self._unreadable(error) from error
        self._connection.row_factory = sqlite3.Row
        self._seen: dict[str, int] = {}
        try:
            self.refresh()
        except StoreError:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Reader {self.path}: {self.snapshot.sweep} sweeps, {self.snapshot.result} results>"

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def refresh(self) -> Snapshot:
        """Move on to the present state of the world."""
        (row,) = self._rows("read_high_water", {})
        self._seen = row
        self.snapshot = Snapshot(**row)
        return self.snapshot

    # --- sweeps -------------------------------------------------------------------------------------------------

    def sweeps(self, limit: int = 50) -> list[SweepRow]:
        """The newest sweeps, newest first."""
        return [_value(SweepRow, row) for row in self._rows("read_sweeps", {"limit": limit})]

    def sweep(self, name: str) -> SweepRow:
        """The sweep with this name, or the only one whose name begins so; `last` is the newest.

        Raises:
            UsageError: there is none, with the nearest names; or there are several, with theirs.
        """
        newest = self.sweeps(200 if name != "last" else 1)
        if not newest:
            raise UsageError(f"{self.path} holds no sweep yet", "`evalctl run SUITE` makes one.")
        if name == "last":
            return newest[0]
        found = self._rows("read_sweeps_by_prefix", {"prefix": name, "limit": SHOWN + 1}) if _storable(name) else []
        for row in found:
            if row["name"] == name or len(found) == 1:
                return _value(SweepRow, row)
        if found:
            names = [row["name"] for row in found]
            more = ", and more" if len(names) > SHOWN else ""
            raise UsageError(
                f"several sweeps begin with {name!r}: {', '.join(names[:SHOWN])}{more}",
                "Give more of the name, or `last` for the newest.",
            )
        raise UsageError(f"there is no sweep {name!r}", _nearest(name, [sweep.name for sweep in newest]))

    def cells(self, sweep_id: int, variant: str | None = None) -> list[CellRecord]:
        """The cells that a sweep planned, or those of one *variant*."""
        return [_value(CellRecord, row) for row in self._rows("read_cells", {"sweep": sweep_id, "variant": variant})]

    def tally(self, sweep_id: int) -> list[Tally]:
        """What the runs with a current result came to, counted by outcome and reason."""
        return [_value(Tally, row) for row in self._rows("read_tally", {"sweep": sweep_id})]

    def remaining(self, sweep_id: int) -> int:
        """Runs that have no result yet, or one that `resume` runs again."""
        (row,) = self._rows("read_remaining", {"sweep": sweep_id})
        return int(row["count"])

    def notices(self, sweep_id: int) -> list[NoticeRow]:
        """What happened to the sweep, in order."""
        return [_value(NoticeRow, row) for row in self._rows("read_notices", {"sweep": sweep_id})]

    def control(self, sweep_id: int) -> list[ControlRow]:
        """What people told the sweep to do, in order."""
        return [_value(ControlRow, row) for row in self._rows("read_control", {"sweep": sweep_id})]

    def workers(self, sweep_id: int) -> list[WorkerState]:
        """The processes that have claimed runs of the sweep, oldest first."""
        return [_value(WorkerState, row) for row in self._rows("read_workers", {"sweep": sweep_id})]

    def doing(self, sweep_id: int) -> list[Doing]:
        """Attempts that are under way in processes with a lease, in the stored order of their runs."""
        return [_value(Doing, row) for row in self._rows("read_doing", {"sweep": sweep_id})]

    def recent(self, sweep_id: int, since: int) -> int:
        """Current results that are final and not older than *since* (microseconds UTC)."""
        (row,) = self._rows("read_recent", {"sweep": sweep_id, "since": since})
        return int(row["count"])

    def spent(self, sweep_id: int, variant: str | None = None) -> Amount:
        """What all attempts of the sweep have used up, late and repeated ones too; with *variant* those of one arm.

        An attempt with an outcome counts by its `detail.spent` (every request, retries included) or, where that says
        nothing, by the outcome's columns; an attempt without one, running or killed, by its `call_sent` and `call`
        events. Tokens of requests whose usage was never reported are missing.
        """
        (row,) = self._rows("read_spent", {"sweep": sweep_id, "variant": variant})
        return _value(Amount, row)

    def granted(self, sweep_id: int) -> Amount:
        """What the processes of the sweep hold or have used of its caps; nothing for a sweep without caps."""
        rows = self._rows("read_granted", {"sweep": sweep_id})
        return _value(Amount, rows[0]) if rows else Amount()

    def accounts(self, sweep_id: int) -> list[WorkerAccount]:
        """What each process of the sweep has taken of its caps and spent, at one moment: that of the call.

        Looks at every event of a request; a question for the end of a sweep, not for every second of it.
        """
        return [
            WorkerAccount(
                worker_id=row["worker_id"],
                grants=row["grants"],
                granted=Amount(calls=row["granted_calls"], tokens=row["granted_tokens"], nusd=row["granted_nusd"]),
                proven=Amount(calls=row["calls"], tokens=row["tokens"], nusd=row["nusd"]),
                unpriced=row["unpriced"],
                settled=bool(row["settled"]),
            )
            for row in self._rows("read_accounts", {"sweep": sweep_id})
        ]

    def coverage(self, sweep_id: int) -> Coverage:
        """How the plan and the results agree, at the moment of the call."""
        (row,) = self._rows("read_coverage", {"sweep": sweep_id})
        return _value(Coverage, row)

    # --- comparisons --------------------------------------------------------------------------------------------

    def tallies(self, sweep_id: int, cells: Iterable[int] | None = None) -> Iterator[CellTally]:
        """What the runs of each planned cell, or of those of *cells*, came to, by cell. Memory stays flat."""
        asked = {"sweep": sweep_id, "cells": _list(cells), "limit": CELL_PAGE}
        cell = 0
        while page := self._rows("compare_cells", {**asked, "cell": cell}):
            for row in page:
                row["walls_ms"] = tuple(json.loads(row["walls_ms"]))
                row["models"] = tuple(map(from_column, json.loads(row["models"])))
                row["incidents"] = _summed(json.loads(row["incidents"])) if row["incidents"] != "[]" else {}
                yield CellTally(**row)
            cell = page[-1]["cell_id"]

    def verifier_counts(self, sweep_id: int) -> list[VerifierCount]:
        """What each verifier said about the runs of each cell, counted."""
        return [_value(VerifierCount, row) for row in self._rows("compare_verdicts", {"sweep": sweep_id})]

    def start_gaps(self, sweep_id: int, baseline: str, candidate: str, *, bound_us: int) -> StartGaps:
        """How far apart two variants began to work; `wide` counts the pairs further apart than *bound_us*."""
        asked = {"sweep": sweep_id, "baseline": baseline, "candidate": candidate, "bound_us": bound_us}
        (row,) = self._rows("compare_gaps", asked)
        return _value(StartGaps, row)

    # --- runs ---------------------------------------------------------------------------------------------------

    def runs(self, sweep_id: int, cells: Iterable[int] | None = None) -> Iterator[RunRecord]:
        """All planned runs, or those of *cells*, in the stored order, with what counts for them. Memory stays flat."""
        wanted = _list(cells)
        position = 0
        while page := self._runs(sweep_id, position, PAGE, wanted):
            yield from page
            position = page[-1].position + 1

    def run(self, sweep_id: int, position: int) -> RunRecord:
        """One planned run.

        Raises:
            UsageError: the sweep has no such position.
        """
        page = self._runs(sweep_id, position, 1) if 0 <= position < 2**63 else []
        if not page or page[0].position != position:
            raise UsageError(
                f"the sweep has no run at position {position}",
                "`evalctl status SWEEP` tells how many it has; they count from 1.",
            )
        return page[0]

    def attempts(self, run_id: int) -> list[AttemptRecord]:
        """Every attempt at a run, first to last, with its outcome or none."""
        return [_value(AttemptRecord, row) for row in self._rows("read_attempts", {"run": run_id})]

    def verdicts(self, attempt_id: int) -> tuple[Judgement, ...]:
        """What the verifiers said about an attempt, in the order they were asked."""
        return self._verdicts([attempt_id]).get(attempt_id, ())

    def events(self, attempt_id: int) -> Iterator[EventRow]:
        """The events of an attempt in order, each with its whole payload.

        Of a payload whose blob was forgotten its short fields remain, and a field `forgotten`.

        Raises:
            StoreError: a stored payload is damaged.
        """
        seq = -1
        while page := self._rows("read_events", {"attempt": attempt_id, "seq": seq, "limit": EVENT_PAGE}):
            for row in page:
                payload = _decoded(row["payload"])
                if row["blob_id"] is not None:
                    whole = self._blob(row["blob_id"])
                    payload = {**payload, "forgotten": True} if whole is None else _decoded(whole)
                yield EventRow(seq=row["seq"], at=row["at"], kind=row["kind"], payload=payload)
            seq = page[-1]["seq"]

    def file_changes(self, attempt_id: int) -> Iterator[FileChange]:
        """The files an attempt changed, sorted by path; content is None where none is kept, or no longer.

        Raises:
            StoreError: a stored content is damaged.
        """
        for row in self._rows("read_file_changes", {"attempt": attempt_id}):
            blob = row.pop("blob_id")
            yield FileChange(**row, content=None if blob is None else self._blob(blob))

    def blob(self, blob_id: int) -> bytes:
        """The content of a blob.

        Raises:
            StoreError: it was forgotten, never existed, or is damaged.
        """
        content = self._blob(blob_id)
        if content is None:
            rows = self._rows("read_forgotten", {"blob": blob_id})
            fate = f"was forgotten by {rows[0]['who']}: {rows[0]['why']}" if rows else "does not exist"
            raise StoreError(f"{self.path}: blob {blob_id} {fate}")
        return content

    # --- rows ---------------------------------------------------------------------------------------------------

    def _runs(self, sweep_id: int, position: int, limit: int, cells: str | None = None) -> list[RunRecord]:
        asked = {"sweep": sweep_id, "position": position, "limit": limit, "cells": cells}
        rows = self._rows("read_runs", asked)
        verdicts = self._verdicts(row["attempt_id"] for row in rows if row["attempt_id"] is not None)
        return [_value(RunRecord, row, verdicts=verdicts.get(row["attempt_id"], ())) for row in rows]

    def _verdicts(self, attempts: Iterable[int]) -> dict[int, tuple[Judgement, ...]]:
        found: dict[int, tuple[Judgement, ...]] = {}
        for row in self._rows("read_verdicts", {"attempts": json.dumps(list(attempts))}):
            attempt = row.pop("attempt_id")
            found[attempt] = (*found.get(attempt, ()), _value(Judgement, row))
        return found

    def _rows(self, name: str, values: Mapping[str, Json]) -> list[dict[str, Any]]:
        """All rows of a named statement; it is over when this returns."""
        try:
            rows = self._connection.execute(statement(name), {**self._seen, **values}).fetchall()
        except sqlite3.Error as error:
            raise self._unreadable(error) from error
        found = [dict(row) for row in rows]
        for column in _TEXT:
            if found and column in found[0]:
                for row in found:
                    if row[column] is not None:
                        row[column] = from_column(row[column])
        return found

    def _blob(self, blob_id: int) -> bytes | None:
        try:
            return get_blob(self._connection, blob_id)
        except sqlite3.Error as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: sqlite3.Error) -> StoreRefused:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return StoreRefused(
                str(self.path), f"is damaged: {error}", "Restore a copy, or use another file: --store FILE"
            )
        return StoreRefused(str(self.path), f"cannot be read: {error}")


_JSON = ("detail", "payload", "conditions")
_BOOLEAN = ("judged", "again", "counts")


def _value(kind: type[T], row: dict[str, Any], **more: Any) -> T:
    """A row as the value it stands for."""
    for column in _JSON:
        if column in row:
            # Of an attempt without outcome there is no detail.
            row[column] = _decoded(row[column]) if row[column] is not None else {}
    for column in _BOOLEAN:
        if column in row:
            row[column] = bool(row[column])
    return kind(**row, **more)


def _list(cells: Iterable[int] | None) -> str | None:
    return None if cells is None else json.dumps(list(cells))


def _summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for count in counts:
        for name, times in count.items():
            found[name] = found.get(name, 0) + times
    return found


def _decoded(text: str | bytes) -> dict[str, Json]:
    try:
        value = json.loads(text)
    except RecursionError:
        # What a model has nested beyond reading is shown as it stands.
        return {"unreadable": text if isinstance(text, str) else text.decode()}
    except ValueError as error:
        raise StoreError(f"a stored JSON text is damaged: {error}") from error
    if not isinstance(value, dict):
        raise StoreError("a stored JSON text is damaged: it is no object")
    return value


def _storable(name: str) -> bool:
    """Whether SQLite can be asked for the name: what a shell hands over may be no Unicode text."""
    return bool(name) and not any("\ud800" <= char <= "\udfff" or char == "\0" for char in name)


def _nearest(name: str, names: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names[:3]
    return f"Nearest: {', '.join(near)}. `last` is the newest."
