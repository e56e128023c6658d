"""The read side of the store: synchronous, read-only and paged, on one consistent snapshot.

A reader sees the store as of its opening (or last refresh): rows above that high-water mark are left out, so that the
parts of a report agree while a sweep continues. No statement stays open between two pages, because an open one would
keep the writer from truncating the write-ahead log.
"""

from __future__ import annotations

import difflib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import attrs

from store.documents.text import from_column
from store.errors import StoreError, StoreRefused, UsageError
from store.measurements import Measurements
from store.records import (
    AttemptRecord,
    CommandRow,
    Coverage,
    NoticeRow,
    OutcomeCount,
    RunningAttempt,
    WorkerAccount,
    WorkerState,
)
from store.rows import (
    Amount,
    CellRecord,
    EventRow,
    FileChange,
    RunRecord,
    SweepRow,
    Verdict,
)
from store.sql.blobs import get_blob
from store.sql.database import SCHEMA_VERSION, build_read_only_uri, examine_store
from store.sql.statements import load_statement
from store.tallies import CellTally, StartGaps, VerifierCount

if TYPE_CHECKING:
    from store.events import Json

T = TypeVar("T")

PAGE_ROWS = 500
"""Number of rows fetched at once."""
PAGE_CELLS = 200
"""Number of cells aggregated at once, each with the times of all its runs."""
PAGE_EVENTS = 100
"""Number of events fetched at once; each may have a blob."""
MAX_LISTED_NAMES = 10
"""Largest number of names that an error lists."""

_TEXT_COLUMNS = ("reason", "cost_source", "model_resolved", "command", "path", "link", "verifier", "kind", "who", "why")
"""Columns of free text, in which the writer escapes characters that SQLite cannot hold."""


@attrs.frozen(kw_only=True)
class Snapshot:
    """A snapshot: the highest id of each table that a reader sees."""

    sweep: int
    attempt: int
    result: int
    notice: int
    control: int


class Reader:
    """A read-only connection to the store.

    Outcomes, events, files and spending are read as of the call, for attempts within the snapshot; everything else is
    as of the snapshot.

    Args:
        path: the store's file.

    Raises:
        StoreRefused: the file does not exist, is not a store, or has a schema that this version cannot read.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        state = examine_store(self.path)
        if state == "absent":
            raise StoreRefused(
                str(self.path),
                "there is no store here yet",
                "Run `evalctl run SUITE` to create one, or name another store: --store FILE",
            )
        if state == "older":
            raise StoreRefused(
                str(self.path),
                f"was written by an older evalctl; this one reads schema {SCHEMA_VERSION}",
                "Run `evalctl run` or `evalctl resume`: both upgrade it and keep a copy of the old file.",
            )
        try:
            self._connection = sqlite3.connect(build_read_only_uri(self.path), uri=True, isolation_level=None)
        except sqlite3.Error as error:
            raise self._explain_refusal(error) from error
        self._connection.row_factory = sqlite3.Row
        self._high_water: dict[str, int] = {}
        try:
            self.refresh_snapshot()
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
        """Close the connection."""
        self._connection.close()

    def refresh_snapshot(self) -> Snapshot:
        """Move the snapshot forward to the present."""
        (row,) = self._fetch_rows("read_high_water", {})
        self._high_water = row
        self.snapshot = Snapshot(**row)
        return self.snapshot

    # --- sweeps -------------------------------------------------------------------------------------------------

    def list_sweeps(self, limit: int = 50) -> list[SweepRow]:
        """List the newest sweeps, newest first."""
        return [_build_value(SweepRow, row) for row in self._fetch_rows("read_sweeps", {"limit": limit})]

    def find_sweep(self, name: str) -> SweepRow:
        """Find the sweep with this name or this unique prefix; `last` is the newest.

        Raises:
            UsageError: no sweep matches (lists the nearest names), or several do (lists theirs).
        """
        newest = self.list_sweeps(200 if name != "last" else 1)
        if not newest:
            raise UsageError(f"{self.path} holds no sweep yet", "Run `evalctl run SUITE` to make one.")
        if name == "last":
            return newest[0]
        found = (
            self._fetch_rows("read_sweeps_by_prefix", {"prefix": name, "limit": MAX_LISTED_NAMES + 1})
            if _is_storable(name)
            else []
        )
        for row in found:
            if row["name"] == name or len(found) == 1:
                return _build_value(SweepRow, row)
        if found:
            names = [row["name"] for row in found]
            more = ", and more" if len(names) > MAX_LISTED_NAMES else ""
            raise UsageError(
                f"several sweeps begin with {name!r}: {', '.join(names[:MAX_LISTED_NAMES])}{more}",
                "Type more of the name, or `last` for the newest.",
            )
        raise UsageError(f"there is no sweep {name!r}", _suggest_names(name, [sweep.name for sweep in newest]))

    def list_cells(self, sweep_id: int, variant: str | None = None) -> list[CellRecord]:
        """List the cells of a sweep's plan, or those of one *variant*."""
        return [
            _build_value(CellRecord, row)
            for row in self._fetch_rows("read_cells", {"sweep": sweep_id, "variant": variant})
        ]

    def count_outcomes(self, sweep_id: int) -> list[OutcomeCount]:
        """Count the current results by outcome, reason and flags."""
        return [_build_value(OutcomeCount, row) for row in self._fetch_rows("read_tally", {"sweep": sweep_id})]

    def count_remaining(self, sweep_id: int) -> int:
        """Count the runs that have no result yet, or one that `resume` repeats."""
        (row,) = self._fetch_rows("read_remaining", {"sweep": sweep_id})
        return int(row["count"])

    def list_notices(self, sweep_id: int) -> list[NoticeRow]:
        """List the notices of the sweep, in order."""
        return [_build_value(NoticeRow, row) for row in self._fetch_rows("read_notices", {"sweep": sweep_id})]

    def list_commands(self, sweep_id: int) -> list[CommandRow]:
        """List the commands given to the sweep, in order."""
        return [_build_value(CommandRow, row) for row in self._fetch_rows("read_control", {"sweep": sweep_id})]

    def list_workers(self, sweep_id: int) -> list[WorkerState]:
        """List the worker processes that have claimed runs of the sweep, oldest first."""
        return [_build_value(WorkerState, row) for row in self._fetch_rows("read_workers", {"sweep": sweep_id})]

    def list_running_attempts(self, sweep_id: int) -> list[RunningAttempt]:
        """List the unfinished attempts of processes with a lease, in the run order."""
        return [_build_value(RunningAttempt, row) for row in self._fetch_rows("read_doing", {"sweep": sweep_id})]

    def count_recent_results(self, sweep_id: int, since: int) -> int:
        """Count the current results that are final and not older than *since* (microseconds UTC)."""
        (row,) = self._fetch_rows("read_recent", {"sweep": sweep_id, "since": since})
        return int(row["count"])

    def sum_spent(self, sweep_id: int, variant: str | None = None) -> Amount:
        """Sum the spending of all attempts, late and repeated ones included, of the sweep or of one *variant*.

        An attempt with an outcome counts by its `detail.spent` (every request, retries included) or, without that, by
        the outcome's columns; a running or killed attempt counts by its `call_sent` and `call` events. Tokens of
        requests without reported usage are missing.
        """
        (row,) = self._fetch_rows("read_spent", {"sweep": sweep_id, "variant": variant})
        return _build_value(Amount, row)

    def sum_allotted(self, sweep_id: int) -> Amount:
        """Sum the allotments that the sweep's processes hold or have used; zero for a sweep without caps."""
        rows = self._fetch_rows("read_granted", {"sweep": sweep_id})
        return _build_value(Amount, rows[0]) if rows else Amount()

    def list_worker_accounts(self, sweep_id: int) -> list[WorkerAccount]:
        """List the allotments and the spending of each process, as of the call.

        Reads the events of every request: call it at the end of a sweep, not every second.
        """
        return [
            WorkerAccount(
                worker_id=row["worker_id"],
                allotments=row["grants"],
                allotted=Amount(calls=row["granted_calls"], tokens=row["granted_tokens"], nusd=row["granted_nusd"]),
                proven=Amount(calls=row["calls"], tokens=row["tokens"], nusd=row["nusd"]),
                unpriced=row["unpriced"],
                settled=bool(row["settled"]),
            )
            for row in self._fetch_rows("read_accounts", {"sweep": sweep_id})
        ]

    def measure_coverage(self, sweep_id: int) -> Coverage:
        """Measure the coverage of the plan by results, as of the call."""
        (row,) = self._fetch_rows("read_coverage", {"sweep": sweep_id})
        return _build_value(Coverage, row)

    # --- comparisons --------------------------------------------------------------------------------------------

    def iterate_cell_tallies(self, sweep_id: int, cells: Iterable[int] | None = None) -> Iterator[CellTally]:
        """Iterate over the aggregates of every planned cell, or of *cells*, by cell id. Memory stays flat."""
        asked = {"sweep": sweep_id, "cells": _encode_ids(cells), "limit": PAGE_CELLS}
        cell = 0
        while page := self._fetch_rows("compare_cells", {**asked, "cell": cell}):
            for row in page:
                row["walls_ms"] = tuple(json.loads(row["walls_ms"]))
                row["models"] = tuple(map(from_column, json.loads(row["models"])))
                row["incidents"] = _sum_counts(json.loads(row["incidents"])) if row["incidents"] != "[]" else {}
                yield CellTally(**row)
            cell = page[-1]["cell_id"]

    def count_verdicts(self, sweep_id: int) -> list[VerifierCount]:
        """Count the verdicts of each verifier on the runs of each cell."""
        return [_build_value(VerifierCount, row) for row in self._fetch_rows("compare_verdicts", {"sweep": sweep_id})]

    def measure_start_gaps(self, sweep_id: int, baseline: str, candidate: str, *, bound_us: int) -> StartGaps:
        """Measure the time between the starts of paired runs; `wide` counts the pairs with more than *bound_us*."""
        asked = {"sweep": sweep_id, "baseline": baseline, "candidate": candidate, "bound_us": bound_us}
        (row,) = self._fetch_rows("compare_gaps", asked)
        return _build_value(StartGaps, row)

    # --- runs ---------------------------------------------------------------------------------------------------

    def iterate_runs(self, sweep_id: int, cells: Iterable[int] | None = None) -> Iterator[RunRecord]:
        """Iterate over all planned runs, or those of *cells*, with current results, in run order. Memory stays flat."""
        wanted = _encode_ids(cells)
        position = 0
        while page := self._fetch_runs(sweep_id, position, PAGE_ROWS, wanted):
            yield from page
            position = page[-1].position + 1

    def find_run(self, sweep_id: int, position: int) -> RunRecord:
        """Find the planned run at a position.

        Raises:
            UsageError: the sweep has no such position.
        """
        page = self._fetch_runs(sweep_id, position, 1) if 0 <= position < 2**63 else []
        if not page or page[0].position != position:
            raise UsageError(
                f"the sweep has no run at position {position}",
                "`evalctl status SWEEP` shows how many there are; positions count from 1.",
            )
        return page[0]

    def list_attempts(self, run_id: int) -> list[AttemptRecord]:
        """List the attempts at a run, first to last, each with its outcome or None."""
        rows = self._fetch_rows("read_attempts", {"run": run_id})
        return [_build_value(AttemptRecord, row, measured=Measurements.take_from(row)) for row in rows]

    def list_verdicts(self, attempt_id: int) -> tuple[Verdict, ...]:
        """List the verdicts on an attempt, in the order in which the verifiers ran."""
        return self._fetch_verdicts([attempt_id]).get(attempt_id, ())

    def iterate_events(self, attempt_id: int) -> Iterator[EventRow]:
        """Iterate over the events of an attempt in order, each with its whole payload.

        A payload whose blob was forgotten has only its short fields, and a field `forgotten`.

        Raises:
            StoreError: a stored payload is damaged.
        """
        seq = -1
        while page := self._fetch_rows("read_events", {"attempt": attempt_id, "seq": seq, "limit": PAGE_EVENTS}):
            for row in page:
                payload = _decode_object(row["payload"])
                if row["blob_id"] is not None:
                    whole = self._fetch_blob(row["blob_id"])
                    payload = {**payload, "forgotten": True} if whole is None else _decode_object(whole)
                yield EventRow(seq=row["seq"], at=row["at"], kind=row["kind"], payload=payload)
            seq = page[-1]["seq"]

    def iterate_file_changes(self, attempt_id: int) -> Iterator[FileChange]:
        """Iterate over the files that an attempt changed, by path; content is None if it is not, or no longer, stored.

        Raises:
            StoreError: a stored content is damaged.
        """
        for row in self._fetch_rows("read_file_changes", {"attempt": attempt_id}):
            blob = row.pop("blob_id")
            yield FileChange(**row, content=None if blob is None else self._fetch_blob(blob))

    def read_blob(self, blob_id: int) -> bytes:
        """Read the content of a blob.

        Raises:
            StoreError: it was forgotten, never existed, or is damaged.
        """
        content = self._fetch_blob(blob_id)
        if content is None:
            rows = self._fetch_rows("read_forgotten", {"blob": blob_id})
            fate = f"was forgotten by {rows[0]['who']}: {rows[0]['why']}" if rows else "does not exist"
            raise StoreError(f"{self.path}: blob {blob_id} {fate}")
        return content

    # --- rows ---------------------------------------------------------------------------------------------------

    def _fetch_runs(self, sweep_id: int, position: int, limit: int, cells: str | None = None) -> list[RunRecord]:
        asked = {"sweep": sweep_id, "position": position, "limit": limit, "cells": cells}
        rows = self._fetch_rows("read_runs", asked)
        verdicts = self._fetch_verdicts(row["attempt_id"] for row in rows if row["attempt_id"] is not None)
        return [
            _build_value(
                RunRecord, row, measured=Measurements.take_from(row), verdicts=verdicts.get(row["attempt_id"], ())
            )
            for row in rows
        ]

    def _fetch_verdicts(self, attempts: Iterable[int]) -> dict[int, tuple[Verdict, ...]]:
        found: dict[int, tuple[Verdict, ...]] = {}
        for row in self._fetch_rows("read_verdicts", {"attempts": json.dumps(list(attempts))}):
            attempt = row.pop("attempt_id")
            found[attempt] = (*found.get(attempt, ()), _build_value(Verdict, row))
        return found

    def _fetch_rows(self, name: str, values: Mapping[str, Json]) -> list[dict[str, Any]]:
        """Fetch all rows of a named statement, which is closed when this returns."""
        try:
            rows = self._connection.execute(load_statement(name), {**self._high_water, **values}).fetchall()
        except sqlite3.Error as error:
            raise self._explain_refusal(error) from error
        found = [dict(row) for row in rows]
        for column in _TEXT_COLUMNS:
            if found and column in found[0]:
                for row in found:
                    if row[column] is not None:
                        row[column] = from_column(row[column])
        return found

    def _fetch_blob(self, blob_id: int) -> bytes | None:
        try:
            return get_blob(self._connection, blob_id)
        except sqlite3.Error as error:
            raise self._explain_refusal(error) from error

    def _explain_refusal(self, error: sqlite3.Error) -> StoreRefused:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return StoreRefused(
                str(self.path), f"is damaged: {error}", "Restore a copy, or use another file: --store FILE"
            )
        return StoreRefused(str(self.path), f"cannot be read: {error}")


_JSON_COLUMNS = ("detail", "payload", "conditions")
_BOOLEAN_COLUMNS = ("judged", "again", "counts")


def _build_value(kind: type[T], row: dict[str, Any], **more: Any) -> T:
    """Build a value of class *kind* from a row, decoding JSON and boolean columns."""
    for column in _JSON_COLUMNS:
        if column in row:
            # An attempt without an outcome has no detail.
            row[column] = _decode_object(row[column]) if row[column] is not None else {}
    for column in _BOOLEAN_COLUMNS:
        if column in row:
            row[column] = bool(row[column])
    return kind(**row, **more)


def _encode_ids(cells: Iterable[int] | None) -> str | None:
    return None if cells is None else json.dumps(list(cells))


def _sum_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for count in counts:
        for name, times in count.items():
            found[name] = found.get(name, 0) + times
    return found


def _decode_object(text: str | bytes) -> dict[str, Json]:
    try:
        value = json.loads(text)
    except RecursionError:
        # A value that a model nested too deeply to parse is returned as text.
        return {"unreadable": text if isinstance(text, str) else text.decode()}
    except ValueError as error:
        raise StoreError(f"a stored JSON text is damaged: {error}") from error
    if not isinstance(value, dict):
        raise StoreError("a stored JSON text is damaged: it is not an object")
    return value


def _is_storable(name: str) -> bool:
    """Return whether SQLite can hold the name: an argument from a shell may contain lone surrogates."""
    return bool(name) and not any("\ud800" <= char <= "\udfff" or char == "\0" for char in name)


def _suggest_names(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names[:3]
    return f"Nearest: {', '.join(near)}. `last` is the newest."
