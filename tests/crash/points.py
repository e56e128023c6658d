"""Where a process can be killed: named points, each reached by what can be seen from outside, and any moment."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import attrs

from tests.peers.driver import Driver, Endpoint, marked, until

Json = Any

CONCURRENCY = 3
TASKS = 3
K = 4
RUNS = TASKS * K
BASH = {"name": "bash", "arguments": {"command": "setsid sleep 300 & sleep 300", "timeoutMs": 600_000}}


@attrs.frozen(kw_only=True)
class View:
    """What can be seen of a sweep while it runs."""

    evalctl: Driver
    endpoint: Endpoint

    def held(self, count: int = CONCURRENCY) -> bool:
        return bool(self.endpoint.counts()["held"] >= count)

    def outcomes(self) -> int:
        return self.evalctl.number("SELECT count(*) FROM outcome")


Reached = Callable[[View], bool]


@contextmanager
def no_commit(view: View) -> Iterator[None]:
    """All that is asked is answered, and nothing of it can be committed."""
    with view.evalctl.turnstile_held():
        view.endpoint.release()
        view.endpoint.idle()
        yield


@contextmanager
def one_outcome(view: View) -> Iterator[None]:
    """One answer of several, and its outcome committed."""
    view.endpoint.release(1)
    until(view.outcomes, "the first outcome")
    yield


@attrs.frozen(kw_only=True)
class Point:
    """A moment in a sweep's life."""

    reached: Reached
    rules: tuple[Json, ...] = ()
    """The endpoint's plan until the kill; after it everything is answered."""
    then: Callable[[View], AbstractContextManager[None]] = lambda _view: nullcontext()
    """What is done to get from where it was reached to where it is killed; the kill falls inside."""
    flags: tuple[str, ...] = ()
    task: Mapping[str, Json] = attrs.field(factory=dict[str, Json])
    allow: tuple[str, ...] = ()


def checkpointed(view: View) -> bool:
    """In WAL mode nothing but a checkpoint writes the main file once the plan is there."""
    return view.outcomes() >= 1 and view.evalctl.store.stat().st_size > 300_000


POINTS: Mapping[str, Point] = {
    "store opened": Point(reached=lambda view: view.evalctl.store.exists()),
    "plan stored": Point(reached=lambda view: bool(view.evalctl.sweep_names())),
    "runs claimed": Point(reached=View.held, rules=({"do": {"hold": 0}},)),
    "in a stream": Point(reached=View.held, rules=({"do": {"hold": 3, "chunks": 8}},)),
    "in a tool call": Point(
        reached=lambda view: len(marked(view.evalctl.sweep_names())) >= 2,
        rules=({"attempt": 1, "do": {"steps": [{"calls": [BASH]}, {"text": "Done."}]}},),
        flags=("--allow-process",),
        allow=("process",),
    ),
    "in a verifier": Point(
        reached=lambda view: bool(marked(view.evalctl.sweep_names())),
        task={"verifiers": [{"kind": "command", "id": "slow", "command": ["sh", "-c", "sleep 0.2"]}]},
    ),
    "before a retry": Point(
        reached=lambda view: view.endpoint.counts()["statuses"].get("503", 0) >= CONCURRENCY,
        rules=({"do": {"status": 503, "times": 2}},),
    ),
    "before the commit of an outcome": Point(reached=View.held, rules=({"do": {"hold": 0}},), then=no_commit),
    "after the commit of an outcome": Point(reached=View.held, rules=({"do": {"hold": 0}},), then=one_outcome),
    "in a checkpoint": Point(reached=checkpointed, rules=({"do": {"size": 1_500_000, "chunks": 20}},)),
    "before the report": Point(reached=lambda view: view.outcomes() >= RUNS),
}
"""By name. At *any* moment, see `at_any`, is none of them."""


def at_any(rng: random.Random) -> Point:
    """After some answers, which come slowly enough for a kill to fall between or into them."""
    answers = rng.randrange(RUNS)
    return Point(
        reached=lambda view: view.endpoint.counts()["answered"] >= answers,
        rules=({"do": {"latency_ms": rng.uniform(0, 60), "chunk_ms": rng.uniform(0, 10)}},),
    )
