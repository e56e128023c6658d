"""What has to hold after a crash and a resume, checked from outside: the endpoint's books against the store's rows."""

from __future__ import annotations

from typing import Any

import attrs

from tests.peers.driver import Driver, Endpoint, Started, marked, positions

Json = Any


@attrs.frozen(kw_only=True)
class Crash:
    """What had been seen when a process was killed."""

    lines: int
    """Of the endpoint's books."""
    finished: frozenset[int]
    """Runs with a committed outcome when the process died."""


def kill(evalctl: Driver, endpoint: Endpoint, started: Started, *, others: bool = False) -> Crash:
    """kill -9. With *others* at work on the same store, the endpoint does not come to rest."""
    assert started.process.poll() is None, started.said()
    started.kill()
    finished = frozenset(evalctl.finished_positions())
    # What was committed before this look was asked before it: the books are read later.
    lines = len(endpoint.lines() if others else endpoint.idle())
    return Crash(lines=lines, finished=finished)


def assert_nothing_lost_or_doubled(
    evalctl: Driver, endpoint: Endpoint, *crashes: Crash, runs: int
) -> dict[int, set[int]]:
    """The whole promise; returns position -> attempts that reached the endpoint."""
    lines = endpoint.idle()
    assert evalctl.number("SELECT count(*) FROM current WHERE again = 0") == runs
    evalctl.assert_sound()
    keys = [line["key"] for line in lines if line["status"] == 200]
    assert len(keys) == len(set(keys)), "a request was sent twice within one attempt"
    planned = {position for (position,) in evalctl.query("SELECT position FROM run")}
    open_at_a_kill: set[int] = set()
    for crash in crashes:
        again = positions(lines[crash.lines :])
        assert crash.finished & set(again) == set(), "a finished run was asked again"
        open_at_a_kill |= planned - crash.finished
    seen = positions(lines)
    assert {position for position, attempts in seen.items() if len(attempts) > 1} <= open_at_a_kill
    counted = evalctl.query(
        "SELECT run.position, attempt.number, outcome.input_tokens FROM outcome"
        " JOIN attempt ON attempt.id = outcome.attempt_id JOIN run ON run.id = attempt.run_id"
    )
    spent: dict[tuple[int, int], int] = {}
    for line in lines:
        _, position, attempt, _ = line["key"].rsplit("/", 3)
        if line["status"] == 200 and not line["gone"]:
            where = int(position), int(attempt)
            spent[where] = spent.get(where, 0) + line["input_tokens"]
    assert {(p, n): tokens for p, n, tokens in counted} == {(p, n): spent[p, n] for p, n, _ in counted}
    assert_nothing_left(evalctl)
    return seen


def assert_nothing_left(evalctl: Driver) -> None:
    """No process that worked for an attempt, and no scratch directory."""
    assert marked(evalctl.sweep_names()) == []
    assert list((evalctl.home / "tmp").glob("evalctl-*")) == []


def assert_money_adds_up(evalctl: Driver, endpoint: Endpoint) -> None:
    """Of a sweep under caps: its own audit holds, every request the endpoint saw is covered by what was granted, and no
    cap is passed.
    """
    standing = evalctl.run("--json", "status", "last").json
    audit = standing["audit"]
    assert audit["holds"], audit["problems"]
    assert (audit["final"], audit["unfinished"]) == (audit["planned"], 0)
    lines = endpoint.idle()
    granted, caps = standing["granted"], standing["caps"]
    tokens = sum(line["input_tokens"] + line["output_tokens"] for line in lines)
    assert len(lines) <= granted["calls"] <= caps["calls"]
    assert tokens <= granted["tokens"] <= caps["tokens"]
    assert standing["spent"]["calls"] <= granted["calls"]
