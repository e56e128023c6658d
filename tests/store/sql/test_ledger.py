from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.documents.encoding import encode_json
from store.documents.text import from_column, to_column
from store.errors import UsageError
from store.events import Call, Incident, ToolCompleted, Waited, WorkStarted
from store.rows import FileChange, Verdict
from store.secrets.redactor import Redactor
from store.sql.blobs import get_blob
from store.sql.ledger import INLINE_PAYLOAD_CHARACTERS
from store.sql.plans import store_plan
from tests.store.sql.living import FAR, ask, durable, ending, sweep, take_part, writing

pytestmark = pytest.mark.anyio
NASTY = (
    "nul \x00, lone \ud800 and \udcff, bell \x07, escape \x1b[31m, del \x7f, line \u2028, \U0001f600, \\u0000, '\"\\"
)
SECRET = "hunter2-hunter2-hunter2"


def events(store: Path, attempt_id: int) -> list[tuple[str, dict[str, Any]]]:
    """(kind, payload) of an attempt in order, from outside; long payloads from their blobs."""
    with closing(sqlite3.connect(store)) as connection:
        rows = connection.execute(
            "SELECT kind, payload, blob_id FROM event WHERE attempt_id = ? ORDER BY seq", (attempt_id,)
        ).fetchall()
        return [
            (kind, json.loads(payload if blob is None else get_blob(connection, blob))) for kind, payload, blob in rows
        ]


async def test_ending_becomes_outcome_verdicts_files_and_a_result(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        (claim, *_) = await part.claims.claim_runs(1)
        done = ending(
            claim,
            "fail",
            composite=0.5,
            started_at=1_500_000,
            wall_ms=12,
            calls=3,
            input_tokens=100,
            cost_nusd=7,
            detail={"spent": {"calls": 3}},
            verdicts=(
                Verdict(verifier="check", kind="command", verdict="fail", score=0.5, detail={"exit": 1}),
                Verdict(verifier="tree", kind="tree-diff-within", verdict="pass"),
            ),
            changes=(
                FileChange(path="src/a.py", change="changed", mode=0o644, content=b"print()\n"),
                FileChange(path="gone", change="deleted"),
                FileChange(path="ln", change="added", link="src/a.py"),
            ),
        )
        part.ledger.finish_attempt(done)
        assert part.acknowledged == []
        await durable(writer)
    assert part.acknowledged == [(done, True)]
    assert ask(store, "SELECT outcome, reason, started_at, ended_at, wall_ms, calls, detail FROM outcome") == [
        ("fail", None, 1_500_000, 2_000_000, 12, 3, '{"spent":{"calls":3}}')
    ]
    assert ask(store, "SELECT verifier, verdict, score FROM verdict ORDER BY id") == [
        ("check", "fail", 0.5),
        ("tree", "pass", None),
    ]
    assert ask(store, "SELECT path, change, mode, link, blob_id IS NULL FROM file_change ORDER BY path") == [
        ("gone", "deleted", None, None, 1),
        ("ln", "added", None, "src/a.py", 1),
        ("src/a.py", "changed", 0o644, None, 0),
    ]
    assert ask(store, "SELECT outcome, judged, again, composite, at, basis, supersedes FROM current") == [
        ("fail", 1, 0, 0.5, 2_000_000, "run", None)
    ]


async def test_events_keep_their_order_and_an_outcome_never_comes_before_them(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        (claim, *_) = await part.claims.claim_runs(1)
        log = part.ledger.open_log(claim)
        assert part.ledger.open_log(claim) is log
        log.append_event(Waited(why="a", ms=1))
        log.append_delta("text", 1, "Hello ")
        log.append_delta("text", 1, "world")
        log.append_event(Call(request=1, account="x", status=200))
        log.append_delta("reasoning", 2, "unfinished")
        part.ledger.finish_attempt(ending(claim))
        seen: list[int] = []
        writer.submit(
            lambda connection: connection.execute("SELECT count(*) FROM event").fetchone()[0]
        ).on_durable = seen.append
        await durable(writer)
    assert seen == [4]
    stored = events(store, claim.attempt_id)
    assert [kind for kind, _ in stored] == ["waited", "text", "call", "reasoning"]
    assert stored[1][1]["text"] == "Hello world"
    assert [length for _, length in stored[1][1]["chunks"]] == [6, 5]
    assert ask(store, "SELECT count(*) FROM event WHERE at < 0") == [(0,)]


async def test_event_times_count_from_the_claim(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        (claim, *_) = await part.claims.claim_runs(1)
        part.now[0] += 7_000_000  # claimed ahead, started seven seconds later
        part.ledger.open_log(claim).append_event(Waited(why="a", ms=1))
    ((at,),) = ask(store, "SELECT at FROM event")
    assert 7_000 <= at < 8_000


async def test_nasty_text_comes_back_unharmed(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        (claim, *_) = await part.claims.claim_runs(1)
        log = part.ledger.open_log(claim)
        log.append_event(ToolCompleted(id="1", name=NASTY, is_error=False, output=NASTY * 1000, ms=1))
        log.append_event(Incident(name="x", detail={NASTY: [NASTY, {"deep": NASTY}]}))
        for piece in NASTY:
            log.append_delta("text", 1, piece)
        part.ledger.finish_attempt(
            ending(
                claim,
                "error",
                reason=NASTY,
                model_resolved=NASTY,
                detail={"text": NASTY},
                verdicts=(Verdict(verifier=NASTY, kind="command", verdict="pass", detail={"out": NASTY}),),
                changes=(FileChange(path=NASTY, change="added", link=NASTY, content=b"\x00\xff\xfe"),),
            )
        )
        part.ledger.record_notice("warning", {"text": NASTY})
    stored = events(store, claim.attempt_id)
    assert stored[0][1]["output"] == NASTY * 1000
    assert stored[0][1]["name"] == NASTY
    assert stored[1][1]["detail"] == {NASTY: [NASTY, {"deep": NASTY}]}
    assert stored[2][1]["text"] == NASTY
    ((reason, model, detail),) = ask(store, "SELECT reason, model_resolved, detail FROM outcome")
    assert from_column(reason) == from_column(model) == json.loads(detail)["text"] == NASTY
    ((verifier, detail),) = ask(store, "SELECT verifier, detail FROM verdict")
    assert from_column(verifier) == json.loads(detail)["out"] == NASTY
    ((path, link, blob_id),) = ask(store, "SELECT path, link, blob_id FROM file_change")
    assert from_column(path) == from_column(link) == NASTY
    with closing(sqlite3.connect(store)) as connection:
        assert get_blob(connection, blob_id) == b"\x00\xff\xfe"
        # What is stored as text is harmless even for programs that stop at NUL.
        for table in ("event", "outcome", "verdict", "file_change", "notice"):
            for row in connection.execute(f"SELECT * FROM {table}"):
                assert not any(isinstance(value, str) and "\x00" in value for value in row)


@given(st.text(alphabet=st.characters(exclude_categories=())))
async def test_text_column_is_reversible(text: str) -> None:
    column = to_column(text)
    column.encode()
    assert "\x00" not in column
    assert from_column(column) == text


@given(st.lists(st.text(alphabet="\\u0d8\x00\ud800"), unique=True))
async def test_different_texts_stay_different_in_a_column(texts: list[str]) -> None:
    assert len({to_column(text) for text in texts}) == len(texts)


async def test_long_payload_goes_to_a_blob_and_leaves_its_short_fields(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        first, second, *_ = await part.claims.claim_runs(2)
        started = WorkStarted(instructions="i" * INLINE_PAYLOAD_CHARACTERS, prompt="p", tools=("bash",), model="m")
        for claim in (first, second):
            part.ledger.open_log(claim).append_event(started)
    rows = ask(store, "SELECT payload, blob_id FROM event ORDER BY attempt_id")
    assert json.loads(rows[0][0]) == {"prompt": "p", "model": "m"}
    assert rows[0] == rows[1]  # one blob for both
    assert events(store, first.attempt_id)[0][1]["instructions"] == "i" * INLINE_PAYLOAD_CHARACTERS


async def test_secrets_never_reach_the_file(store: Path) -> None:
    redactor = Redactor([("API_KEY", SECRET)])
    async with writing(store) as writer:
        part = await take_part(writer, redactor=redactor)
        (claim, *_) = await part.claims.claim_runs(1)
        log = part.ledger.open_log(claim)
        log.append_event(WorkStarted(instructions=SECRET, prompt=f"x{SECRET}y", tools=(SECRET,), model=SECRET))
        log.append_event(ToolCompleted(id="1", name="bash", is_error=False, output=f"{SECRET} " * 1000, ms=1))
        log.append_event(Incident(name="x", detail={SECRET: {"nested": [SECRET]}}))
        for piece in f"the key is {SECRET}, use it":
            log.append_delta("text", 1, piece)
        part.ledger.record_notice("warning", {"text": SECRET})
        part.ledger.finish_attempt(
            ending(
                claim,
                "error",
                reason=SECRET,
                model_resolved=SECRET,
                detail={"message": SECRET},
                verdicts=(Verdict(verifier="v", kind="command", verdict="error", detail={"out": SECRET}),),
                changes=(
                    FileChange(path=f"{SECRET}.txt", change="added", content=f"key={SECRET}\n".encode()),
                    FileChange(path="binary", change="added", content=b"\xff\x00" + SECRET.encode() + b"\xfe"),
                    FileChange(path="link", change="added", link=SECRET),
                ),
            )
        )
        await durable(writer)
        await writer.submit_and_wait(
            store_plan(
                sweep(name="other"),
                redactor,
            )
        )
        with closing(sqlite3.connect(store)) as connection:
            dump = "\n".join(connection.iterdump())
            contents = [
                get_blob(connection, blob_id) for (blob_id,) in connection.execute("SELECT id FROM blob").fetchall()
            ]
    assert SECRET not in dump
    assert all(content is not None and SECRET.encode() not in content for content in contents)
    assert any(b"key=[redacted:API_KEY]" in content for content in contents if content)
    assert b"\xff\x00[redacted:API_KEY]\xfe" in contents


async def test_paths_that_redaction_makes_equal_are_both_kept(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer, redactor=Redactor([("A", "aaaaaaaaaa"), ("A", "bbbbbbbbbb")]))
        (claim, *_) = await part.claims.claim_runs(1)
        changes = tuple(FileChange(path=path, change="added", content=b"x") for path in ("aaaaaaaaaa", "bbbbbbbbbb"))
        part.ledger.finish_attempt(ending(claim, changes=changes))
        await durable(writer)
    assert ask(store, "SELECT path FROM file_change ORDER BY path") == [("[redacted:A]",), ("[redacted:A]~2",)]


async def test_late_attempt_keeps_its_outcome_and_is_refused_as_a_result(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        (stopped, *_) = await part.claims.claim_runs(1)
        # Its lease runs out, another process takes the run over and finishes first.
        other = await take_part(writer, sweep_id=part.sweep_id, alive=lambda _: None)
        other.now[0] += 10_000_000
        (taken, *_) = await other.claims.claim_runs(1)
        assert (taken.run_id, taken.number) == (stopped.run_id, stopped.number + 1)
        other.ledger.finish_attempt(ending(taken, calls=1))
        part.ledger.finish_attempt(ending(stopped, "fail", calls=2, cost_nusd=5))
        await durable(writer)
    assert [accepted for _, accepted in other.acknowledged] == [True]
    assert [accepted for _, accepted in part.acknowledged] == [False]
    assert ask(store, "SELECT attempt_id, outcome FROM current") == [(taken.attempt_id, "pass")]
    assert ask(store, "SELECT attempt_id, calls FROM outcome ORDER BY attempt_id") == [
        (stopped.attempt_id, 2),
        (taken.attempt_id, 1),
    ]


async def test_first_of_two_endings_of_one_attempt_stands(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        (claim, *_) = await part.claims.claim_runs(1)
        part.ledger.finish_attempt(ending(claim))
        part.ledger.finish_attempt(ending(claim, "fail"))
        await durable(writer)
    assert [accepted for _, accepted in part.acknowledged] == [True, False]
    assert ask(store, "SELECT outcome FROM outcome") == ask(store, "SELECT outcome FROM current") == [("pass",)]


async def test_events_after_the_end_are_kept_too(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        (claim, *_) = await part.claims.claim_runs(1)
        log = part.ledger.open_log(claim)
        log.append_event(Waited(why="in time", ms=1))
        part.ledger.finish_attempt(ending(claim))
        log.append_event(Waited(why="late", ms=2))
        part.ledger.open_log(claim).append_event(Waited(why="later", ms=3))
        log.append_event(Waited(why="last", ms=4))
        await durable(writer)
    assert [payload["why"] for _, payload in events(store, claim.attempt_id)] == ["in time", "late", "later", "last"]


async def test_retry_supersedes_the_result_it_was_claimed_for(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        for claim in await part.claims.claim_runs(10):
            part.ledger.finish_attempt(ending(claim, "error"))
        await durable(writer)
        later = await take_part(writer, sweep_id=part.sweep_id)
        claims = await later.claims.claim_runs(10)
        assert [claim.number for claim in claims] == [2, 2, 2, 2]
        for claim in claims:
            later.ledger.finish_attempt(ending(claim))
        await durable(writer)
    assert ask(store, "SELECT outcome, basis, supersedes IS NOT NULL, count(*) FROM current GROUP BY 1, 2, 3") == [
        ("pass", "retry", 1, 4)
    ]
    assert ask(store, "SELECT count(*) FROM result") == [(8,)]


@pytest.mark.parametrize(
    "fields",
    [
        {"composite": 1.5},
        {"composite": math.nan},
        {"verdicts": (Verdict(verifier="v", kind="k", verdict="pass", score=-1),)},
        {"outcome": "skipped", "reason": None},
    ],
)
async def test_what_no_row_could_hold_is_refused_where_it_comes_from(store: Path, fields: dict[str, Any]) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        (claim, *_) = await part.claims.claim_runs(1)
        with pytest.raises(ValueError, match=r"score|reason"):
            part.ledger.finish_attempt(ending(claim, **fields))
        await durable(writer)


async def test_numbers_beyond_the_column_are_cut(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer)
        (claim, *_) = await part.claims.claim_runs(1)
        part.ledger.finish_attempt(ending(claim, input_tokens=10**30))
        await durable(writer)
    assert ask(store, "SELECT input_tokens FROM outcome") == [(2**63 - 1,)]


async def test_what_json_does_not_have_is_written_as_text() -> None:
    assert encode_json({"a": math.nan, "b": [math.inf], "c": -1.5}) == '{"a":"nan","b":["inf"],"c":-1.5}'


async def test_what_is_nested_too_deeply_is_cut() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert "cut: nested too deeply" in encode_json({"arguments": deep})


async def test_deeply_nested_arguments_of_a_model_are_recorded(store: Path) -> None:
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    async with writing(store) as writer:
        part = await take_part(writer)
        (claim, *_) = await part.claims.claim_runs(1)
        part.ledger.open_log(claim).append_event(Incident(name="x", detail={"arguments": deep}))
        await durable(writer)
    assert len(events(store, claim.attempt_id)) == 1


async def test_plan_uses_known_cells_again(store: Path) -> None:
    async with writing(store) as writer:
        await writer.submit_and_wait(store_plan(sweep(cases=3, variants=2)))
        await writer.submit_and_wait(store_plan(sweep(cases=4, variants=2, name="sweep-00000002")))
        with pytest.raises(UsageError, match="exists already"):
            await writer.submit_and_wait(store_plan(sweep()))
    assert ask(store, "SELECT count(*) FROM cell") == [(8,)]
    assert ask(store, "SELECT s.name, s.runs, count(*) FROM sweep s JOIN run r ON r.sweep_id = s.id GROUP BY 1") == [
        ("sweep-00000001", 12, 12),
        ("sweep-00000002", 16, 16),
    ]


HISTORY = {
    "cell": "digest",
    "sweep": "name",
    "run": "pair",
    "worker": "host",
    "attempt": "number",
    "event": "kind",
    "notice": "kind",
    "outcome": "outcome",
    "verdict": "verdict",
    "judgement": "score",
    "result": "judged",
    "spend": "calls",
    "control": "who",
    "blob": "data",
    "forgotten": "who",
    "file_change": "change",
}


@pytest.fixture
async def full_store(store: Path) -> Path:
    """A store with a row in every history table."""
    async with writing(store) as writer:
        part = await take_part(writer)
        (claim, *_) = await part.claims.claim_runs(1)
        part.ledger.open_log(claim).append_event(Waited(why="x", ms=1))
        part.ledger.record_notice("x", {})
        part.ledger.finish_attempt(
            ending(
                claim,
                verdicts=(Verdict(verifier="v", kind="k", verdict="pass"),),
                changes=(FileChange(path="p", change="added", content=b"x"),),
            )
        )
        await durable(writer)
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute("INSERT INTO judgement VALUES (1, 'j', 'c', 0.5, '{}')")
        connection.execute("INSERT INTO spend VALUES (1, 1, 1, 'grant', 1, 1, 1, 1, 1, 1, 1)")
        connection.execute("INSERT INTO control (sweep_id, verb, who, why, at) VALUES (1, 'pause', 'me', 'x', 1)")
        connection.execute("INSERT INTO blob VALUES (999, x'99', 1, 'raw', x'00')")
        connection.execute("INSERT INTO forgotten VALUES (1000, x'98', 'me', 'x', 1)")
    return store


async def test_history_is_append_only_from_any_connection(full_store: Path) -> None:
    tables = {
        name
        for (name,) in ask(full_store, "SELECT name FROM sqlite_schema WHERE type = 'table'")
        if not name.startswith("sqlite_")
    }
    assert tables == {*HISTORY, "lease"}
    with closing(sqlite3.connect(full_store, isolation_level=None)) as stranger:
        for table, column in HISTORY.items():
            rows = stranger.execute(f"SELECT * FROM {table}").fetchall()
            assert rows, table
            for attack in (
                f"UPDATE {table} SET {column} = {column}",
                f"DELETE FROM {table}",
                f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}",
                f"REPLACE INTO {table} SELECT * FROM {table}",
                f"INSERT OR IGNORE INTO {table} SELECT * FROM {table}",
            ):
                with pytest.raises(sqlite3.IntegrityError):
                    stranger.execute(attack)
            assert stranger.execute(f"SELECT * FROM {table}").fetchall() == rows


async def test_chain_takes_one_first_result_and_one_successor_each(full_store: Path) -> None:
    row = "INSERT INTO result (run_id, attempt_id, supersedes, sweep_id, cell_id, outcome, judged, again, at) "
    values = "SELECT run_id, attempt_id, {}, sweep_id, cell_id, 'pass', 1, 0, 1 FROM result WHERE id = 1"
    with closing(sqlite3.connect(full_store, isolation_level=None)) as stranger:
        with pytest.raises(sqlite3.IntegrityError):
            stranger.execute(row + values.format("NULL"))
        stranger.execute(row + values.format(1))
        with pytest.raises(sqlite3.IntegrityError):
            stranger.execute(row + values.format(1))
        assert stranger.execute("SELECT id FROM current").fetchall() == [(2,)]


async def test_leases_are_the_only_rows_that_change(store: Path) -> None:
    async with writing(store) as writer:
        part = await take_part(writer, expires_at=FAR)
        assert ask(store, "SELECT worker_id, expires_at FROM lease") == [(part.worker_id, FAR)]
        await part.claims.claim_runs(1)
        assert ask(store, "SELECT worker_id, expires_at FROM lease") == [(part.worker_id, 2_000_000)]
