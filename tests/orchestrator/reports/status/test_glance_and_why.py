"""What `status`, `status --watch` and `status --why` tell, from stores with a sweep in every state."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest

from orchestrator.cli import app
from orchestrator.cli.common import Exit
from orchestrator.reports.status import glance, why
from orchestrator.reports.status.doing import GATE, activity_of
from orchestrator.reports.status.glance import Glance
from orchestrator.reports.status.why import RunStatus
from store.events import Call, CallResponded, CallSent, Event, ToolStarted, WorkEnded, WorkStarted
from store.records import RunningAttempt
from store.rows import Claim
from store.sql.commands import CommandVerb, record_command
from store.sql.plans import store_plan
from store.sql.reader import Reader
from store.sql.statements import load_statement
from tests.orchestrator.reports import stored
from tests.store.sql.living import writing

SECOND = 1_000_000
SENT = CallSent(request=1, account="openai#1\x1b[2J", model="m-1", bytes=10)
REFUSED = Call(request=1, account="openai#1", status=429, error="rate_limit", retry_in_ms=30_000)


def doing(kind: str, payload: dict[str, int | str] | None = None, at: int = 2000) -> RunningAttempt:
    return RunningAttempt(
        attempt_id=1,
        position=4,
        number=1,
        worker_id=1,
        claimed_at=stored.AT,
        at=None if kind is None else at,
        kind=kind,
        payload=payload or {},
    )


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (doing(None), "its turn"),
        (doing("work_started"), GATE),
        (doing("tool_completed"), GATE),
        (doing("call_sent", {"account": "a"}), "an answer from a"),
        (doing("call_responded"), "the rest of an answer"),
        (doing("call", {"finish": "stop"}), "its next step"),
        (doing("tool_started", {"name": "ba\x1b[2Jsh"}), "the tool bash"),
        (doing("work_ended"), "its verifiers"),
        (doing("some\nday"), "what follows some day"),
    ],
)
def test_the_last_event_tells_what_a_run_waits_for(found: RunningAttempt, what: str) -> None:
    one = activity_of(found, stored.AT)
    assert one.waits_for == what
    assert one.begun == (found.kind is not None)
    assert one.since == stored.AT + (2 * SECOND if one.begun else 0)


def test_a_retry_is_waited_for_until_its_time_has_come() -> None:
    found = doing("call", {"error": "rate_limit", "status": 429, "retry_in_ms": 5000})
    one = activity_of(found, stored.AT + 3 * SECOND)
    assert (one.waits_for, one.until) == ("a retry after rate_limit (429)", stored.AT + 7 * SECOND)
    assert activity_of(found, stored.AT + 9 * SECOND).waits_for == GATE


def order(path: Path, verb: CommandVerb, why: str = "", who: str = "me@here") -> None:
    async def write() -> None:
        async with writing(path) as writer:
            await writer.submit_and_wait(record_command(1, verb, who=who, why=why, payload={}, at=stored.AT))

    anyio.run(write)


def events(claim: Claim) -> tuple[Event, ...]:
    started = WorkStarted(instructions="", prompt="", tools=(), model="m-1")
    return {
        "retry": (started, SENT, REFUSED),
        "answer": (started, SENT),
        "stream": (started, SENT, CallResponded(request=1, status=200)),
        "tool": (started, ToolStarted(id="t", name="bash", arguments={}, effect="process")),
        "verify": (WorkEnded(stop="completed"),),
    }.get(claim.case_id, ())


OPEN = ["retry", "answer", "stream", "tool", "verify", "claimed"]
OUTCOMES: dict[str, list[dict[str, Any] | None]] = {
    **{case: [None] for case in OPEN},
    "pass": [{}],
    "error": [{"outcome": "error", "reason": "provider", "detail": {"message": "connection \x1b[2Jrefused"}}],
    "budget": [{"outcome": "skipped", "reason": "budget", "again": True}],
    "cancelled": [{"outcome": "skipped", "reason": "cancelled"}],
}
PLACE = {case: place for place, case in enumerate(OUTCOMES, 1)}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    planned = stored.sweep(list(OUTCOMES), 1)
    return stored.write(tmp_path / "runs.db", planned, OUTCOMES, events, leaving=False)


def look(path: Path, *, alive: bool = True, after_s: int = 10) -> Glance:
    with Reader(path) as reader:
        sweep = reader.find_sweep("last")
        return glance.glance_of(reader, sweep, now=stored.AT + after_s * SECOND, is_alive=lambda _: alive)


def asked(path: Path, case: str, *, alive: bool | None = True, after_s: int = 10) -> RunStatus:
    with Reader(path) as reader:
        return why.run_status_of(
            reader, reader.find_sweep("last"), PLACE[case], now=stored.AT + after_s * SECOND, is_alive=lambda _: alive
        )


def test_a_glance_counts_what_is_waited_for_and_says_when_the_next_try_is_due(store: Path) -> None:
    found = look(store)
    assert set(glance.waiting_lines(found)) == {
        "1 waits for a retry after rate_limit (429) (the next in 20 s)",
        "1 waits for an answer from openai#1 (longest 10 s)",
        "1 waits for the rest of an answer (longest 10 s)",
        "1 waits for the tool bash (longest 10 s)",
        "1 waits for its verifiers (longest 10 s)",
        "1 waits for its turn (longest 10 s)",
    }
    assert found.rate == pytest.approx(3)
    assert found.left_s == pytest.approx(7 / 3 * 60)
    assert not found.over


def test_several_wait_for_their_turn_and_for_their_verifiers(store: Path) -> None:
    found = look(store)
    doubled = attrs.evolve(found, activities=(*found.activities, *found.activities))
    assert {
        "2 wait for their turn (longest 10 s)",
        "2 wait for their verifiers (longest 10 s)",
        "2 wait for an answer from openai#1 (longest 10 s)",
    } <= set(glance.waiting_lines(doubled))


def test_nothing_is_under_way_and_no_end_is_foretold_when_the_process_is_dead(store: Path) -> None:
    found = look(store, alive=False)
    assert (found.activities, found.rate, found.left_s) == ((), None, None)


def test_in_a_pause_no_end_is_foretold(store: Path) -> None:
    order(store, "pause", "lunch")
    found = look(store)
    assert found.standing.state == "paused"
    assert found.left_s is None
    assert "command: pause by me@here, 2020-01-01T00:00:00.000Z (lunch)" in list(glance.glance_lines(found))


def test_a_cut_that_leaves_the_limit_where_it_was_is_no_change(store: Path) -> None:
    limits = [("limit_cut", 2), *[("limit_cut", 1)] * 20, ("limit_raised", 2)]
    rows = [(1, 1, stored.AT, kind, json.dumps({"limit": limit})) for kind, limit in limits]

    async def write() -> None:
        async with writing(store) as writer:
            await writer.submit_and_wait(
                lambda connection: connection.executemany(load_statement("insert_notice"), rows)
            )

    anyio.run(write)
    told = [text.partition(", ")[0] for text in glance.glance_lines(look(store)) if text.startswith("limit")]
    assert told == [
        "limit: cut to 2 requests at once",
        "limit: cut to 1 request at once",
        "limit: raised to 2 requests at once",
    ]


def test_a_line_is_the_same_as_long_as_only_time_passes(store: Path) -> None:
    assert glance.heartbeat_line(look(store, after_s=10)) == glance.heartbeat_line(look(store, after_s=12))


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (7100, "118 min"), (7200, "2 h 0 min")]
)
def test_spans_are_read_at_a_glance(seconds: float, text: str) -> None:
    assert glance.format_span(seconds) == text


@pytest.mark.parametrize(
    ("case", "because", "resume"),
    [
        ("retry", "has waited for a retry after rate_limit (429) since", "leaves it to that process"),
        (
            "answer",
            "process 1 on here is working on it; it has waited for an answer from openai#1 since",
            "leaves it to",
        ),
        ("tool", "has waited for the tool bash", "leaves it to"),
        ("claimed", "process 1 on here has claimed it; it has waited for its turn", "leaves it to"),
        ("pass", "it is finished: pass", "`resume` leaves it alone"),
        ("error", "it is finished: error(provider)", "only `resume --errors` runs it again"),
        ("budget", "skipped(budget) is not a final result", "if the caps leave room"),
        ("cancelled", "it is finished: skipped(cancelled)", "only `resume --cancelled` runs it"),
    ],
)
def test_why_a_run_is_unfinished_and_what_resume_would_do(store: Path, case: str, because: str, resume: str) -> None:
    found = asked(store, case)
    assert because in why.explain_unfinished(found)
    assert resume in why.explain_resume(found)


def test_a_run_whose_process_has_died_stopped_or_cannot_be_seen(store: Path) -> None:
    assert "died before finishing it" in why.explain_unfinished(asked(store, "answer", alive=False))
    assert "`resume` runs it" in why.explain_resume(asked(store, "answer", alive=False))
    assert "may be stopped" in why.explain_unfinished(asked(store, "answer", after_s=61))
    assert "takes it over" in why.explain_resume(asked(store, "answer", after_s=61))
    assert "cannot be seen from this machine" in why.explain_unfinished(asked(store, "answer", alive=None, after_s=61))


def test_a_run_that_was_never_claimed(tmp_path: Path) -> None:
    path = stored.write(tmp_path / "runs.db", stored.sweep(["a"], 1), {"a": [{}]})

    async def plan() -> None:
        async with writing(path) as writer:
            await writer.submit_and_wait(
                store_plan(attrs.evolve(stored.sweep(["a"], 1), name="20200102T000000Z-00000abc"))
            )

    anyio.run(plan)
    with Reader(path) as reader:
        found = why.run_status_of(reader, reader.find_sweep("last"), 1, now=stored.AT, is_alive=lambda _: True)
    assert why.explain_unfinished(found) == "it has not been claimed yet"
    assert why.explain_resume(found) == "`resume` runs it"


def test_an_order_is_told_with_the_run_it_holds_back(store: Path) -> None:
    order(store, "pause", "lunch")
    assert why.explain_resume(asked(store, "budget")).startswith("`resume` runs it if")
    assert "the sweep is paused by me@here" in "\n".join(why.why_lines(asked(store, "retry")))
    order(store, "cancel")
    assert "`resume --cancelled` runs it" in why.explain_resume(asked(store, "retry"))


@pytest.fixture
def evalctl(store: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int | Exit, str, str]]:
    def called(*words: str) -> tuple[int | Exit, str, str]:
        code = app.run_command(["--store", str(store), *words])
        told = capsys.readouterr()
        return code, told.out, told.err

    return called


def test_status_why_tells_attempts_and_their_messages_harmlessly(
    evalctl: Callable[..., tuple[int | Exit, str, str]],
) -> None:
    code, out, _ = evalctl("status", "--why", f"last/{PLACE['error']}")
    assert code == 0
    assert "error(provider)" in out
    assert "connection refused" in out
    assert "\x1b" not in out
    code, out, _ = evalctl("status", "--why", f"last/{PLACE['error']}", "--json")
    found = json.loads(out)
    assert (found["schema"], found["finished"], found["reason"]) == ("evalctl.why/1", True, "provider")
    assert found["attempts"][0]["message"] == "connection \x1b[2Jrefused"


def test_a_position_needs_no_flag_and_a_sweep_is_no_run(evalctl: Callable[..., tuple[int | Exit, str, str]]) -> None:
    assert evalctl("status", f"last/{PLACE['pass']}")[1].splitlines()[0].endswith("it is finished: pass")
    code, _, err = evalctl("status", "--why", "last")
    assert code == 1
    assert "'last' is not a run" in err


def test_status_tells_orders_and_the_state_they_bring(
    evalctl: Callable[..., tuple[int | Exit, str, str]], store: Path
) -> None:
    order(store, "cancel", "wrong\x1b[2J model")
    code, out, _ = evalctl("status")
    assert code == 0
    assert "cancelled by me@here at 2020-01-01T00:00:00.000Z (wrong model)" in out
    assert "--cancelled" in out
    assert json.loads(evalctl("status", "--json")[1])["order"]["verb"] == "cancel"


def test_watching_a_sweep_that_is_over_shows_it_once_and_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stored.write(tmp_path / "runs.db", stored.sweep(["a"], 2), {"a": [{}, {}]})
    assert app.run_command(["--store", str(path), "status", "--watch"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("done: 2 of 2 done, 2 pass")
    assert app.run_command(["--store", str(path), "status", "--watch", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "done"
