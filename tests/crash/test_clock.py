"""The wall clock is set while a sweep runs, by days, forward and back: claims, caps and the stored order hold."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.to_thread
import attrs
import pytest

from orchestrator.engine import sweep
from orchestrator.engine.worker import SweepEnd, WorkerSetup
from orchestrator.measured import config_hash
from orchestrator.suite.effects import Grants
from orchestrator.suite.formats.suite_json import read_suite
from orchestrator.suite.kind import SuiteKind
from orchestrator.suite.settings import Settings
from orchestrator.world import real_world
from providers.base import AgentSettings
from providers.registry import ProviderOptions, find_provider
from store.rows import Caps
from store.secrets.redactor import Redactor
from tests.e2e.conftest import MakeSuite, numbered
from tests.peers.driver import Driver, Endpoint, until

pytestmark = pytest.mark.anyio

DAY_US = 86_400_000_000
RUNS = 60
JUMPS = ((10, 2 * DAY_US), (30, -DAY_US), (45, 0))
"""From so many answers on, the clock is so far off."""


def settings(endpoint: Endpoint) -> Settings:
    agent = AgentSettings()
    return Settings(
        suite="tiny",
        k=RUNS // 3,
        provider="openai",
        model="peer-1",
        base_url=endpoint.url,
        agent=agent,
        config_hash=config_hash(agent),
        grants=Grants(),
        caps=Caps(calls=RUNS),
        concurrency=4,
    )


async def test_a_clock_that_jumps_loses_doubles_and_reorders_nothing(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    endpoint.plan({"do": {"latency_ms": 40}})
    suite = read_suite(make_suite(numbered(3)), bundled=False)
    offset_us = [0]
    real = real_world()
    chosen = settings(endpoint)
    setup = WorkerSetup(
        kind=SuiteKind(
            suite=suite,
            tasks=suite.tasks,
            settings=chosen,
            provider=find_provider("openai")(
                ProviderOptions(model="peer-1", base_url=endpoint.url, suite_root=suite.root, wall=real.wall)
            ),
        ),
        redactor=Redactor([]),
        store=evalctl.store,
        world=attrs.evolve(real, wall=lambda: real.wall() + offset_us[0]),
        say=lambda _text: None,
        terminal=False,
        lease_s=1.0,
    )
    ends: list[SweepEnd] = []

    async def work() -> None:
        ends.append(await sweep.start_sweep(setup, command="run"))

    async with anyio.create_task_group() as both:
        both.start_soon(work)
        for answers, off in JUMPS:
            await anyio.to_thread.run_sync(until, lambda: endpoint.counts()["answered"] >= answers, "answers")  # noqa: B023 - called at once
            offset_us[0] = off

    assert (ends[0].stopped, ends[0].remaining) == (None, 0)
    assert evalctl.query("SELECT outcome, count(*) FROM outcome GROUP BY 1") == [("pass", RUNS)]
    assert evalctl.number("SELECT count(*) FROM attempt") == RUNS
    claimed = [position for (position,) in evalctl.query(
        "SELECT position FROM attempt JOIN run ON run.id = attempt.run_id ORDER BY attempt.id"
    )]  # fmt: skip
    assert claimed == sorted(claimed)
    assert len(endpoint.idle()) == endpoint.counts()["answered"] == RUNS
    assert evalctl.number("SELECT total_calls FROM spend ORDER BY seq DESC LIMIT 1") == RUNS
    assert evalctl.query("SELECT min(wall_ms) >= 40, max(wall_ms) < 60000 FROM outcome") == [(1, 1)]
    evalctl.assert_sound()
    for verb in ("status", "show"):
        done = evalctl.run(verb, "last")
        assert done.code == 0, done.stderr
