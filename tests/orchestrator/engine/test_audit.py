"""Books that balance, and every way in which they do not."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest

from orchestrator.engine.audit import Audit, audit_lines, audit_sweep, audit_to_json
from store.events import Call, CallSent
from store.rows import Amount, Caps, Claim
from store.sql.reader import Reader
from tests.orchestrator.reports import stored

EACH = Amount(calls=1, tokens=15, nusd=20_000)
"""What each of the four runs' only request came to."""
PASSED: dict[str, list[dict[str, Any]]] = {"a": [{}, {}], "b": [{}, {}]}


def events(claim: Claim) -> tuple[CallSent, Call]:
    return (
        CallSent(request=1, account="x", model="m-1", bytes=10),
        Call(request=1, account="x", tokens=EACH.tokens, cost_nusd=EACH.nusd, cost_source="prices"),
    )


def books(
    tmp_path: Path,
    *spends: tuple[str, Amount],
    outcomes: dict[str, Any] = PASSED,
    left: bool = True,
    leaving: bool = True,
    caps: Caps | None = None,
    events: Callable[..., tuple[CallSent, Call]] = events,
) -> Path:
    """A store with one worker, its rows of `spend` (kind and change), and whether it said that it left."""
    caps = caps or Caps(calls=100, tokens=1_000_000, nusd=10**9)
    planned = stored.sweep(list(outcomes), 2, settings={"caps": attrs.asdict(caps)})
    path = stored.write(tmp_path / "runs.db", planned, outcomes, events, leaving=leaving)
    with closing(sqlite3.connect(path)) as connection, connection:
        total = Amount()
        for seq, (kind, change) in enumerate(spends, start=1):
            total += change
            connection.execute(
                "INSERT INTO spend VALUES (1, ?, 1, ?, ?, ?, ?, ?, ?, ?, 0)",
                (seq, kind, *attrs.astuple(change), *attrs.astuple(total)),
            )
        if left:
            connection.execute("INSERT INTO notice VALUES (NULL, 1, 1, 0, 'left', '{}')")
    return path


def found(path: Path, *, alive: bool = False) -> Audit:
    with Reader(path) as reader:
        return audit_sweep(reader, reader.find_sweep("last"), now=stored.AT, is_alive=lambda _: alive)


def times(amount: Amount, factor: int) -> Amount:
    return Amount(calls=amount.calls * factor, tokens=amount.tokens * factor, nusd=amount.nusd * factor)


ALL = times(EACH, 4)
TAKEN = Amount(calls=50, tokens=1000, nusd=10**6)


def test_what_was_taken_and_given_back_is_what_the_requests_came_to(tmp_path: Path) -> None:
    result = found(books(tmp_path, ("grant", TAKEN), ("settle", ALL - TAKEN)))
    assert result.problems == ()
    [line] = audit_lines(result)
    assert line == (
        "audit: 4 planned = 4 final + 0 unfinished; 4 calls, 60 tokens, 0.00008 USD charged according to the events of "
        "every request, and the caps agree"
    )
    told = audit_to_json(result)
    assert told["holds"]
    assert told["charged"] == told["granted"] == {"calls": 4, "tokens": 60, "nusd": 80_000}
    json.dumps(told)


@pytest.mark.parametrize("wrong", [Amount(calls=1), Amount(tokens=-1), Amount(nusd=1)])
def test_a_process_that_left_with_something_unaccounted_for_fails_loudly(tmp_path: Path, wrong: Amount) -> None:
    result = found(books(tmp_path, ("grant", TAKEN), ("settle", ALL + wrong - TAKEN)))
    [line] = audit_lines(result)
    assert line.startswith("AUDIT FAILED: here pid 1 left")
    assert not audit_to_json(result)["holds"]


def test_what_a_killed_process_had_taken_is_named_and_no_failure(tmp_path: Path) -> None:
    result = found(books(tmp_path, ("grant", TAKEN), left=False))
    assert result.problems == ()
    [line] = audit_lines(result)
    assert "counted as spent: here pid 1 (46 calls, 940 tokens, 0.00092 USD)" in line
    assert audit_to_json(result)["lost"] == [{"host": "here", "pid": 1, "calls": 46, "tokens": 940, "nusd": 920_000}]


def test_a_killed_process_that_spent_more_than_it_had_taken_is_a_failure(tmp_path: Path) -> None:
    result = found(books(tmp_path, ("grant", Amount(calls=50, tokens=1000, nusd=1)), left=False))
    assert ["killed after spending more" in problem for problem in result.problems] == [True]


def test_a_process_killed_between_its_farewell_and_giving_back_is_lost_and_no_failure(tmp_path: Path) -> None:
    result = found(books(tmp_path, ("grant", TAKEN)))
    assert result.problems == ()
    assert len(result.lost) == 1


def test_what_a_working_process_holds_is_neither_lost_nor_missing(tmp_path: Path) -> None:
    result = found(books(tmp_path, ("grant", TAKEN), left=False, leaving=False), alive=True)
    assert (result.problems, result.lost, result.reserved) == ((), (), TAKEN - ALL)
    assert "held by working processes: 46 calls" in next(audit_lines(result))


def test_only_caps_that_a_process_had_to_keep_to_are_held_against_it(tmp_path: Path) -> None:
    path = books(tmp_path, ("grant", Amount(calls=50)), left=False, caps=Caps(calls=100))
    assert found(path).problems == ()
    assert found(path).lost[0].capped == ("calls",)


def test_without_caps_there_is_nothing_to_agree_with(tmp_path: Path) -> None:
    result = found(books(tmp_path, caps=Caps()))
    assert result.problems == ()
    assert "caps" not in next(audit_lines(result))


def test_runs_to_be_done_again_and_runs_without_a_result_are_unfinished(tmp_path: Path) -> None:
    outcomes = {"a": [{}, {"outcome": "skipped", "reason": "budget", "again": True}], "b": [None, {}]}
    result = found(books(tmp_path, ("grant", ALL), ("settle", Amount()), outcomes=outcomes))
    assert (result.coverage.final, result.coverage.unfinished, result.problems) == (2, 2, ())


def test_a_plan_that_lost_a_run_does_not_balance(tmp_path: Path) -> None:
    path = books(tmp_path, ("grant", ALL), ("settle", Amount()))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TRIGGER sweep_no_update")
        connection.execute("UPDATE sweep SET runs = 5")
    assert found(path).problems == ("planned: 5 runs; stored: 4",)


def test_a_run_with_two_results_does_not_balance(tmp_path: Path) -> None:
    path = books(tmp_path, ("grant", ALL), ("settle", Amount()))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP INDEX result_chain")
        guards = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name LIKE 'result_no_replace%'"
        ).fetchall()
        for (name,) in guards:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(
            "INSERT INTO result (run_id, attempt_id, sweep_id, cell_id, outcome, judged, again, at) "
            "SELECT run_id, attempt_id, sweep_id, cell_id, outcome, judged, again, at FROM result LIMIT 1"
        )
    assert "1 run with more than one result that counts" in found(path).problems


def test_requests_without_a_known_cost_are_counted(tmp_path: Path) -> None:
    def one_unpriced(claim: Claim) -> tuple[CallSent, Call]:
        sent, ended = events(claim)
        return (sent, attrs.evolve(ended, cost_nusd=None) if claim.position == 1 else ended)

    result = found(books(tmp_path, caps=Caps(), events=one_unpriced))
    assert result.unpriced == 1
    assert "the cost of 1 call is unknown" in next(audit_lines(result))


def test_a_large_call_counts_like_any_other(tmp_path: Path) -> None:
    def large(claim: Claim) -> tuple[CallSent, Call]:
        sent, ended = events(claim)
        return (sent, attrs.evolve(ended, tool_calls=({"id": "1", "name": "bash", "arguments": "x" * 9000},)))

    assert found(books(tmp_path, ("grant", ALL), ("settle", Amount()), events=large)).problems == ()
