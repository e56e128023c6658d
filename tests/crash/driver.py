"""`make crash`: kills sweeps at named points and at any, resumes and kills again until they are done, and audits them.

    python -m tests.crash.driver [--runs 300] [--seed 0] [--at-once 2]

Each run is a sweep of its own, with its own store and endpoint. A third of them is killed at the named points in turn,
the others at any moment; every resume may be killed too. What has to hold afterwards is in `aftermath.py`.

Exit codes: 0 everything held; 1 something did not, and is told with its number, which with the same seed meets the same
points again.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time  # noqa: TID251 - kills fall at moments
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import attrs

from tests.crash.aftermath import (
    Crash,
    assert_money_adds_up,
    assert_nothing_left,
    assert_nothing_lost_or_doubled,
    kill,
)
from tests.crash.points import CONCURRENCY, POINTS, RUNS, TASKS, K, Point, View, at_any
from tests.e2e.conftest import against, numbered, tiny, write_suite
from tests.peers.driver import Driver, Started, clean_environment, running_endpoint, until

CAPS = ("--max-calls", "4000", "--max-tokens", "1000000000")
CONFIG = {"schemaVersion": 1, "limits": {"maxOutputTokens": 500_000}}
"""More than the longest answer has: an endpoint that says more than it may is another story."""
MOST_KILLS = 6
"""Of one sweep; the resume after them is let be."""
NAMED_EVERY = 3


@attrs.frozen(kw_only=True)
class Story:
    """What happened to one sweep."""

    number: int
    point: str
    kills: int
    missed: bool
    """It was done before the point was reached."""
    wrong: str = ""


def story(folder: Path, number: int, seed: int) -> Story:
    """Run, kill and resume one sweep, and audit it."""
    rng = random.Random(f"{seed} {number}")
    turn, rest = divmod(number, NAMED_EVERY)
    name = "at any moment" if rest else list(POINTS)[turn % len(POINTS)]
    point = at_any(rng) if rest else POINTS[name]
    kills: list[Crash] = []
    try:
        missed = not _live_through(folder / str(number), point, rng, kills)
    except AssertionError:
        return Story(number=number, point=name, kills=len(kills), missed=False, wrong=traceback.format_exc())
    return Story(number=number, point=name, kills=len(kills), missed=missed)


def _live_through(home: Path, point: Point, rng: random.Random, kills: list[Crash]) -> bool:
    """Raises AssertionError if anything does not hold; whether the point was reached."""
    home.mkdir()
    suite = write_suite(home / "tiny", numbered(TASKS), allow=point.allow, **point.task)
    (home / "evalctl.json").write_text(json.dumps(CONFIG), encoding="ascii")
    evalctl = Driver(home, clean_environment(home, EVALCTL_LEASE_SECONDS="2"))
    with running_endpoint(home / "ledger.jsonl", *point.rules, latency_ms=5) as endpoint:
        view = View(evalctl=evalctl, endpoint=endpoint)
        size = ("--k", str(K), "--concurrency", str(CONCURRENCY))
        afresh = tiny(suite, *against(endpoint), *size, *CAPS, *point.flags)
        try:
            started = evalctl.start(*afresh)
            until(lambda: point.reached(view) or _ended(started), "the point", every_s=0.001)
            reached = not _ended(started)
            if reached:
                with point.then(view):
                    kills.append(kill(evalctl, endpoint, started))
            endpoint.plan({"do": {"latency_ms": 20}})
            endpoint.release()
            _finish(evalctl, afresh, rng, lambda started: kills.append(kill(evalctl, endpoint, started)))
            if kills or not reached:
                assert_nothing_lost_or_doubled(evalctl, endpoint, *kills, runs=RUNS)
                assert_money_adds_up(evalctl, endpoint)
            assert_nothing_left(evalctl)
        finally:
            evalctl.close()
    return reached


def _ended(started: Started) -> bool:
    return started.process.poll() is not None


def _finish(evalctl: Driver, afresh: list[str], rng: random.Random, killed: Callable[[Started], None]) -> None:
    """Resume until it is done; a sweep whose plan was never stored is started again."""
    for left in reversed(range(MOST_KILLS)):
        started = evalctl.start(*(("resume", "last") if evalctl.sweep_names() else afresh))
        if left and rng.random() < 0.6:
            until_s = time.monotonic() + rng.uniform(0.2, 2.0)
            until(lambda: _ended(started) or time.monotonic() >= until_s, "the next kill")  # noqa: B023 - called at once
            if not _ended(started):
                killed(started)
                continue
        done = started.finish()
        assert done.code == 0, done.stderr
        return


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.crash.driver", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=2)
    options = parser.parse_args()
    stories: list[Story] = []
    with tempfile.TemporaryDirectory(prefix="crash-") as folder, ThreadPoolExecutor(options.at_once) as pool:
        for told in pool.map(partial(story, Path(folder), seed=options.seed), range(options.runs)):
            stories.append(told)
            if told.wrong:
                print(f"run {told.number}, {told.point}:\n{told.wrong}", file=sys.stderr)  # noqa: T201
            elif len(stories) % 25 == 0:
                print(f"{len(stories)} of {options.runs}", file=sys.stderr)  # noqa: T201 - for the one who waits
    _tell(stories)
    sys.exit(any(told.wrong for told in stories))


def _tell(stories: list[Story]) -> None:
    """A line for each point."""
    print(f"{'POINT':34}{'SWEEPS':>8}{'KILLS':>8}{'MISSED':>8}{'WRONG':>8}")  # noqa: T201 - the program's output
    for point in (*POINTS, "at any moment"):
        found = [told for told in stories if told.point == point]
        count = Counter(missed=sum(told.missed for told in found), wrong=sum(bool(told.wrong) for told in found))
        kills = sum(told.kills for told in found)
        print(f"{point:34}{len(found):8}{kills:8}{count['missed']:8}{count['wrong']:8}")  # noqa: T201 - the same


if __name__ == "__main__":
    main()
