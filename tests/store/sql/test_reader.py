"""The reader gives back what was written, as one state of the world, and refuses what is no store."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from store.documents.text import to_column
from store.errors import StoreError, StoreRefused, UsageError
from store.records import OutcomeCount
from store.rows import Amount, EventRow, FileChange, Verdict
from store.sql.reader import Reader
from tests.store.sql.generate import Shape, create, generate, insert

AT = 1_767_225_600_000_000
SHAPE = Shape()


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated store, for reading only."""
    path = tmp_path_factory.mktemp("history") / "runs.db"
    generate(path, SHAPE)
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    """A store with one sweep `s1` (id 1) of three runs of one cell, and one worker; nothing has run."""
    with closing(create(path)) as connection:
        insert(
            connection,
            "cell",
            digest=b"d" * 32,
            fingerprint="f" * 64,
            fingerprint_version=1,
            config_hash="c",
            suite_id="suite",
            suite_version="1",
            case_id="case",
            case_version="1",
            variant="",
            target="t",
            model="m",
            document="{}",
        )
        insert(connection, "worker", host="h", pid=7, boot="b", born=3, version="1", started_at=AT)
        sweep(connection, "s1")
        yield connection


def sweep(connection: sqlite3.Connection, name: str, runs: int = 3) -> int:
    number = insert(
        connection,
        "sweep",
        name=name,
        command="run",
        suite_id="suite",
        mode="live",
        seed=5,
        repetitions=runs,
        planned_at=AT,
        runs=runs,
        conditions='{"model":"m"}',
    )
    for position in range(runs):
        insert(connection, "run", sweep_id=number, position=position, cell_id=1, repetition=position, pair=position)
    return number


def attempt(connection: sqlite3.Connection, run: int = 1, number: int = 1) -> int:
    return insert(connection, "attempt", run_id=run, number=number, worker_id=1, claimed_at=AT)


def outcome(
    connection: sqlite3.Connection, attempt_id: int, run: int = 1, outcome: str = "pass", **values: Any
) -> None:
    insert(connection, "outcome", attempt_id=attempt_id, run_id=run, outcome=outcome, ended_at=AT + 1, **values)


def result(
    connection: sqlite3.Connection,
    attempt_id: int,
    *,
    run: int = 1,
    outcome: str = "pass",
    again: int = 0,
    supersedes: int | None = None,
    **values: Any,
) -> int:
    return insert(
        connection,
        "result",
        run_id=run,
        attempt_id=attempt_id,
        supersedes=supersedes,
        sweep_id=1,
        cell_id=1,
        outcome=outcome,
        judged=int(outcome in ("pass", "fail")),
        again=again,
        at=AT + 1,
        **values,
    )


def event(
    connection: sqlite3.Connection,
    attempt_id: int,
    seq: int,
    kind: str,
    payload: dict[str, Any],
    *,
    blob_id: int | None = None,
) -> None:
    connection.execute(
        "INSERT INTO event VALUES (?, ?, ?, ?, ?, ?)",
        (attempt_id, seq, seq * 10, kind, json.dumps(payload), blob_id),
    )


def blob(connection: sqlite3.Connection, content: bytes, codec: str = "raw") -> int:
    data = content if codec == "raw" else zlib.compress(content)
    return insert(connection, "blob", hash=sha256(content).digest(), size=len(content), codec=codec, data=data)


# --- what is no store -------------------------------------------------------------------------------------------


def test_a_missing_store_is_refused_with_how_one_comes_about(path: Path) -> None:
    with pytest.raises(StoreRefused) as refusal:
        Reader(path)

    assert "no store" in str(refusal.value)
    assert "evalctl run" in str(refusal.value)
    assert not path.exists()


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="directory"):
        Reader(tmp_path)


def test_garbage_is_refused(path: Path) -> None:
    path.write_bytes(b"not a database, but long enough to be taken for one" * 100)

    with pytest.raises(StoreRefused, match="not a database"):
        Reader(path)


def test_a_foreign_database_is_refused(path: Path) -> None:
    with closing(sqlite3.connect(path)) as foreign:
        foreign.execute("CREATE TABLE runs (id)")

    with pytest.raises(StoreRefused, match="another tool"):
        Reader(path)


def test_a_newer_store_is_refused(path: Path, connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA user_version = 999")

    with pytest.raises(StoreRefused, match="newer"):
        Reader(path)


def test_a_damaged_store_is_refused_when_the_damage_shows(history: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.db"
    content = bytearray(history.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    broken.write_bytes(content)

    with pytest.raises(StoreRefused, match="damaged"):
        Reader(broken)


def test_a_reader_cannot_write(path: Path, connection: sqlite3.Connection) -> None:
    with Reader(path) as reader, pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader._connection.execute("DELETE FROM lease")


def test_importing_it_loads_nothing_heavy() -> None:
    heavy = ("asyncio", "aiosqlite", "anyio", "cattrs", "rich", "structlog", "httpx", "rfc8785")
    code = f"import sys, store.sql.reader; print([name for name in {heavy} if name in sys.modules])"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# --- sweeps -----------------------------------------------------------------------------------------------------


def test_sweeps_come_newest_first(path: Path, connection: sqlite3.Connection) -> None:
    sweep(connection, "s2")
    sweep(connection, "s3")

    with Reader(path) as reader:
        assert [row.name for row in reader.list_sweeps()] == ["s3", "s2", "s1"]
        assert [row.name for row in reader.list_sweeps(limit=2)] == ["s3", "s2"]
        assert reader.list_sweeps()[-1].conditions == {"model": "m"}


@pytest.mark.parametrize(("asked", "found"), [("last", "20260102-b"), ("20260101-aa", "20260101-aa"), ("s", "s1")])
def test_a_sweep_is_found_by_name_prefix_or_last(
    path: Path, connection: sqlite3.Connection, asked: str, found: str
) -> None:
    for name in ("20260101-aa", "20260101-aab", "20260102-b"):
        sweep(connection, name)

    with Reader(path) as reader:
        assert reader.find_sweep(asked).name == found


def test_an_ambiguous_prefix_is_told_with_the_names(path: Path, connection: sqlite3.Connection) -> None:
    for number in range(12):
        sweep(connection, f"x{number:02}")

    with Reader(path) as reader, pytest.raises(UsageError) as error:
        reader.find_sweep("x")

    assert "x00, x01" in str(error.value)
    assert "and more" in str(error.value)


@pytest.mark.parametrize("asked", ["s2", "", "%", "*", "\udc80", "a\0b"])
def test_an_unknown_sweep_is_told_with_the_nearest(path: Path, connection: sqlite3.Connection, asked: str) -> None:
    sweep(connection, "other")

    with Reader(path) as reader, pytest.raises(UsageError, match="s1"):
        reader.find_sweep(asked)


def test_a_store_without_sweeps_says_so(path: Path) -> None:
    create(path).close()

    with Reader(path) as reader, pytest.raises(UsageError, match="no sweep yet"):
        reader.find_sweep("last")


def test_cells_of_a_sweep(path: Path, connection: sqlite3.Connection) -> None:
    with Reader(path) as reader:
        (cell,) = reader.list_cells(1)

    assert (cell.id, cell.case_id, cell.model, cell.config_hash) == (1, "case", "m", "c")


def test_notices_and_control_are_read_in_order(path: Path, connection: sqlite3.Connection) -> None:
    for kind in ("opened", "limited"):
        insert(connection, "notice", sweep_id=1, at=AT, kind=kind, payload='{"n":1}')
    insert(connection, "control", sweep_id=1, verb="pause", who="me", why="lunch", at=AT)

    with Reader(path) as reader:
        assert [(notice.kind, notice.payload) for notice in reader.list_notices(1)] == [
            ("opened", {"n": 1}),
            ("limited", {"n": 1}),
        ]
        (order,) = reader.list_commands(1)

    assert (order.verb, order.who, order.why, order.payload) == ("pause", "me", "lunch", {})


def test_workers_are_told_with_their_lease_and_open_attempts(path: Path, connection: sqlite3.Connection) -> None:
    outcome(connection, attempt(connection, run=1), run=1)
    attempt(connection, run=2)
    insert(connection, "lease", worker_id=1, expires_at=AT + 60)
    insert(connection, "worker", host="elsewhere", pid=1, boot="", born=0, version="1", started_at=AT)

    with Reader(path) as reader:
        (worker,) = reader.list_workers(1)

    assert (worker.pid, worker.expires_at, worker.attempts, worker.open) == (7, AT + 60, 2, 1)


# --- what counts ------------------------------------------------------------------------------------------------


def test_a_run_shows_the_attempt_that_counts(path: Path, connection: sqlite3.Connection) -> None:
    first, second = attempt(connection, number=1), attempt(connection, number=2)
    outcome(connection, first, outcome="error", reason="interrupted")
    outcome(connection, second, wall_ms=5, detail='{"spent":{"calls":2}}')
    old = result(connection, first, outcome="error", reason="interrupted", again=1)
    result(connection, second, supersedes=old, basis="retry", composite=1.0)

    with Reader(path) as reader:
        run = reader.find_run(1, 0)
        attempts = reader.list_attempts(run.run_id)

    assert (run.outcome, run.basis, run.attempt_number, run.attempts, run.measured.wall_ms) == (
        "pass",
        "retry",
        2,
        2,
        5,
    )
    assert (run.judged, run.again, run.detail) == (True, False, {"spent": {"calls": 2}})
    assert [(row.number, row.outcome, row.reason, row.counts) for row in attempts] == [
        (1, "error", "interrupted", False),
        (2, "pass", None, True),
    ]


def test_a_run_without_a_result_and_an_attempt_without_an_outcome_say_so(
    path: Path, connection: sqlite3.Connection
) -> None:
    attempt(connection)

    with Reader(path) as reader:
        run = reader.find_run(1, 0)
        (row,) = reader.list_attempts(1)

    assert (run.outcome, run.attempt_id, run.attempts, run.detail, run.verdicts) == (None, None, 1, {}, ())
    assert (row.outcome, row.counts, row.detail) == (None, False, {})


@pytest.mark.parametrize("position", [-1, 3, 2**70])
def test_a_position_beyond_the_plan_is_refused(path: Path, connection: sqlite3.Connection, position: int) -> None:
    with Reader(path) as reader, pytest.raises(UsageError, match="no run at position"):
        reader.find_run(1, position)


def test_verdicts_are_those_of_the_last_pass_in_their_order(path: Path, connection: sqlite3.Connection) -> None:
    one = attempt(connection)
    outcome(connection, one)
    result(connection, one)
    for pass_no, verifier, verdict in ((0, "z", "fail"), (0, "a", "pass"), (1, "z", "pass"), (1, "a", "error")):
        insert(
            connection,
            "verdict",
            attempt_id=one,
            pass_no=pass_no,
            verifier=verifier,
            kind="command",
            verdict=verdict,
            detail='{"exit":1}',
        )

    with Reader(path) as reader:
        run = reader.find_run(1, 0)
        assert reader.list_verdicts(one) == run.verdicts

    assert run.verdicts == (
        Verdict(verifier="z", kind="command", verdict="pass", detail={"exit": 1}),
        Verdict(verifier="a", kind="command", verdict="error", detail={"exit": 1}),
    )


def test_the_tally_counts_current_results_only(path: Path, connection: sqlite3.Connection) -> None:
    one, two = attempt(connection), attempt(connection, number=2)
    outcome(connection, one, outcome="error", reason="interrupted")
    outcome(connection, two)
    old = result(connection, one, outcome="error", reason="interrupted", again=1)
    with Reader(path) as before:
        result(connection, two, supersedes=old)
        with Reader(path) as after:
            assert before.count_outcomes(1) == [
                OutcomeCount(outcome="error", reason="interrupted", judged=False, again=True, count=1)
            ]
            assert after.count_outcomes(1) == [
                OutcomeCount(outcome="pass", reason=None, judged=True, again=False, count=1)
            ]
            assert (before.count_remaining(1), after.count_remaining(1)) == (3, 2)


def test_a_reader_stays_in_the_state_of_the_world_it_opened_in(path: Path, connection: sqlite3.Connection) -> None:
    with Reader(path) as reader:
        one = attempt(connection)
        outcome(connection, one)
        result(connection, one)
        insert(connection, "notice", sweep_id=1, at=AT, kind="late", payload="{}")
        sweep(connection, "s2")

        assert reader.find_run(1, 0).outcome is None
        assert reader.find_run(1, 0).attempts == 0
        assert [row.name for row in reader.list_sweeps()] == ["s1"]
        assert (reader.count_outcomes(1), reader.list_notices(1), reader.list_attempts(1), reader.list_workers(1)) == (
            [],
            [],
            [],
            [],
        )

        reader.refresh_snapshot()

        assert reader.find_run(1, 0).outcome == "pass"
        assert len(reader.list_sweeps()) == 2


def test_runs_come_in_the_stored_order_over_many_pages(tmp_path: Path) -> None:
    large = tmp_path / "large.db"
    generate(large, Shape(cases=20, variants=2, repetitions=30, sweeps=1, events=0))

    with Reader(large) as reader:
        runs = list(reader.iterate_runs(1))

    assert [run.position for run in runs] == list(range(1200))
    assert sum(run.outcome is not None for run in runs) == 600


def test_runs_cells_and_sums_of_one_variant_are_those_among_all(tmp_path: Path) -> None:
    large = tmp_path / "large.db"
    generate(large, Shape(cases=20, variants=2, repetitions=30, sweeps=1, events=0))
    with Reader(large) as reader:
        every = reader.list_cells(1)
        for variant in {cell.variant for cell in every}:
            cells = reader.list_cells(1, variant)
            wanted = {cell.id for cell in cells}
            assert cells == [cell for cell in every if cell.variant == variant]
            assert list(reader.iterate_runs(1, wanted)) == [
                run for run in reader.iterate_runs(1) if run.cell_id in wanted
            ]
            assert list(reader.iterate_cell_tallies(1, wanted)) == [
                one for one in reader.iterate_cell_tallies(1) if one.cell_id in wanted
            ]
        assert reader.list_cells(1, "nobody") == []
        assert list(reader.iterate_runs(1, [])) == []
        assert list(reader.iterate_cell_tallies(1, [])) == []
        spent = [reader.sum_spent(1, variant) for variant in sorted({cell.variant for cell in every})]
        assert all(one.calls for one in spent)
        assert sum(one.calls for one in spent) == reader.sum_spent(1).calls
        assert sum(one.tokens for one in spent) == reader.sum_spent(1).tokens
        assert reader.sum_spent(1, "nobody") == Amount()


def test_reading_runs_holds_no_statement_open(path: Path) -> None:
    generate(path, SHAPE)
    with Reader(path) as reader:
        runs = reader.iterate_runs(1)
        next(runs)
        with closing(sqlite3.connect(path, isolation_level=None)) as writer:
            insert(writer, "worker", host="w", pid=1, boot="", born=0, version="1", started_at=AT)
            busy, left, moved = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    assert (busy, left, moved) == (0, 0, 0)


def test_memory_stays_flat_over_many_runs(tmp_path: Path) -> None:
    large = tmp_path / "large.db"
    generate(large, Shape(cases=50, variants=2, repetitions=60, sweeps=1, events=0))
    with Reader(large) as reader:
        next(reader.iterate_runs(1))
        tracemalloc.start()
        try:
            count = sum(1 for _ in reader.iterate_runs(1))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert count == 6000
    assert peak < 6_000_000


# --- money ------------------------------------------------------------------------------------------------------


def test_spending_counts_every_attempt_also_killed_ones(path: Path, connection: sqlite3.Connection) -> None:
    one, two, killed = attempt(connection), attempt(connection, number=2), attempt(connection, run=2)
    outcome(connection, one, calls=1, detail='{"spent":{"calls":4,"tokens":700}}', cost_nusd=5)
    outcome(connection, two, calls=2, input_tokens=10, output_tokens=5)
    event(connection, killed, 1, "call_sent", {"request": 1})
    event(connection, killed, 2, "call", {"request": 1, "usage": {"input": 30, "output": 4}, "cost_nusd": 9})
    event(connection, killed, 3, "call_sent", {"request": 2})
    event(connection, killed, 4, "text", {"usage": {"input": 1000}})

    with Reader(path) as reader:
        assert reader.sum_spent(1) == Amount(calls=4 + 2 + 2, tokens=700 + 15 + 34, nusd=14)
        assert reader.sum_spent(2) == Amount()


def test_a_provider_that_claims_absurd_numbers_does_not_break_the_sum(
    path: Path, connection: sqlite3.Connection
) -> None:
    for run in (1, 2, 3):
        outcome(connection, attempt(connection, run=run), run=run, input_tokens=2**63 - 1, output_tokens=1)

    with Reader(path) as reader:
        assert reader.sum_spent(1).tokens >= 10**15


def test_what_is_granted_is_the_last_balance(path: Path, connection: sqlite3.Connection) -> None:
    for seq, total in ((1, 100), (2, 80)):
        insert(
            connection,
            "spend",
            sweep_id=1,
            seq=seq,
            worker_id=1,
            kind="grant",
            calls=0,
            tokens=0,
            nusd=0,
            total_calls=total,
            total_tokens=2,
            total_nusd=3,
            at=AT,
        )

    with Reader(path) as reader:
        assert reader.sum_allotted(1) == Amount(calls=80, tokens=2, nusd=3)
        assert reader.sum_allotted(2) == Amount()


# --- what happened ----------------------------------------------------------------------------------------------


def test_events_come_back_unharmed_with_their_blobs(path: Path, connection: sqlite3.Connection) -> None:
    text = "lone \ud800, NUL \0, bell \a, é, \U0001f600 " + "x" * 3000
    one = attempt(connection)
    event(connection, one, 1, "text", {"text": text[:40]})
    event(connection, one, 2, "text", {"request": 1}, blob_id=blob(connection, json.dumps({"text": text}).encode()))
    event(
        connection, one, 3, "text", {"request": 1}, blob_id=blob(connection, json.dumps({"text": "z"}).encode(), "zlib")
    )

    with Reader(path) as reader:
        assert list(reader.iterate_events(one)) == [
            EventRow(seq=1, at=10, kind="text", payload={"text": text[:40]}),
            EventRow(seq=2, at=20, kind="text", payload={"text": text}),
            EventRow(seq=3, at=30, kind="text", payload={"text": "z"}),
        ]


def test_events_are_paged(path: Path, connection: sqlite3.Connection) -> None:
    one = attempt(connection)
    for seq in range(250):
        event(connection, one, seq, "text", {"n": seq})

    with Reader(path) as reader:
        assert [row.payload["n"] for row in reader.iterate_events(one)] == list(range(250))


def test_of_a_forgotten_blob_the_short_fields_remain(path: Path, connection: sqlite3.Connection) -> None:
    one = attempt(connection)
    number = blob(connection, b'{"text": "private"}')
    event(connection, one, 1, "text", {"request": 1}, blob_id=number)
    insert(connection, "forgotten", blob_id=number, hash=b"h", who="me", why="asked to", at=AT)
    connection.execute("DELETE FROM blob WHERE id = ?", (number,))

    with Reader(path) as reader:
        (row,) = reader.iterate_events(one)
        assert row.payload == {"request": 1, "forgotten": True}
        with pytest.raises(StoreError, match="forgotten by me: asked to"):
            reader.read_blob(number)


def test_a_blob_is_read_and_a_missing_one_is_told(path: Path, connection: sqlite3.Connection) -> None:
    number = blob(connection, b"\xff" * 5000, "zlib")

    with Reader(path) as reader:
        assert reader.read_blob(number) == b"\xff" * 5000
        with pytest.raises(StoreError, match="does not exist"):
            reader.read_blob(99)


def test_a_damaged_blob_is_told(path: Path, connection: sqlite3.Connection) -> None:
    number = insert(connection, "blob", hash=b"h", size=5, codec="zlib", data=b"junk")

    with Reader(path) as reader, pytest.raises(StoreError, match="damaged"):
        reader.read_blob(number)


def test_a_damaged_payload_is_told(path: Path, connection: sqlite3.Connection) -> None:
    one = attempt(connection)
    connection.execute("INSERT INTO event VALUES (?, 1, 1, 'text', '{\"tex', NULL)", (one,))

    with Reader(path) as reader, pytest.raises(StoreError, match="damaged"):
        list(reader.iterate_events(one))


def test_a_payload_nested_beyond_reading_is_shown_as_text(path: Path, connection: sqlite3.Connection) -> None:
    one = attempt(connection)
    deep = '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"
    connection.execute("INSERT INTO event VALUES (?, 1, 1, 'text', ?, NULL)", (one, deep))

    with Reader(path) as reader:
        (row,) = reader.iterate_events(one)

    assert row.payload == {"unreadable": deep}


def test_file_changes_come_back_with_content_mode_and_link(path: Path, connection: sqlite3.Connection) -> None:
    one = attempt(connection)
    name = "odd\udcff\0name"
    number = blob(connection, b"content")
    changes: dict[str, dict[str, Any]] = {
        "a.py": {"change": "changed", "mode": 0o755, "blob_id": number},
        "b.py": {"change": "deleted"},
        "c": {"change": "added", "mode": 0o777, "link": "a.py"},
        to_column(name): {"change": "added", "mode": 0o644, "blob_id": number},
    }
    for change, values in changes.items():
        insert(connection, "file_change", attempt_id=one, path=change, **values)

    with Reader(path) as reader:
        assert list(reader.iterate_file_changes(one)) == [
            FileChange(path="a.py", change="changed", mode=0o755, content=b"content"),
            FileChange(path="b.py", change="deleted"),
            FileChange(path="c", change="added", mode=0o777, link="a.py"),
            FileChange(path=name, change="added", mode=0o644, content=b"content"),
        ]


def test_its_repr_tells_its_state(history: Path) -> None:
    with Reader(history) as reader:
        assert repr(reader) == f"<Reader {history}: 4 sweeps, {reader.snapshot.result} results>"
