"""Opening what a replay plays, for the verbs that run one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs

from orchestrator.cli.common import print_notice
from orchestrator.cli.sweep_setup import store_of
from orchestrator.suite.config import Config
from orchestrator.suite.model import Suite, Task
from orchestrator.suite.recordings.recordings import Recordings, find_differences, read_recordings
from orchestrator.suite.settings import Settings
from orchestrator.world import World
from providers.recording.replay import Replay
from store.errors import UsageError


def open_replay(suite: Suite, tasks: Sequence[Task], settings: Settings, store: Path) -> tuple[Settings, Replay]:
    """The settings with what was recorded, and the player of the recordings; warns of what is otherwise.

    Raises:
        UsageError: recordings cannot be used, or are not those that this sweep had begun with.
    """
    recordings = _find_recordings(suite, tasks, settings, store)
    checks = recordings.list_checks()
    if settings.played and (changed := sorted(dict(checks.items() ^ settings.played.items()))):
        raise UsageError(
            f"the cassettes have changed since the sweep was planned: {', '.join(changed)}",
            "Put them back as they were, or start a new replay.",
        )
    for warning in find_differences(recordings, tasks, settings):
        print_notice(warning)
    return attrs.evolve(settings, model=recordings.model, played=checks), recordings.make_replayer(suite)


def _find_recordings(suite: Suite, tasks: Sequence[Task], settings: Settings, store: Path) -> Recordings:
    if settings.replay_of is None:
        return read_recordings(suite, tasks, settings)
    from orchestrator.suite.recordings.stored_recordings import rebuild_recordings
    from store.sql.reader import Reader

    with Reader(store) as reader:
        return rebuild_recordings(reader, reader.find_sweep(settings.replay_of), suite, tasks)


def without_provider(config: Config) -> Config:
    """The configuration without those who would be asked: a replay asks nobody, and needs no key."""
    return attrs.evolve(config, provider=None, model=None, base_url=None, api_key_env=None)


def count_repetitions(sweep: str | None, suite: Suite, k: int | None, world: World) -> tuple[int, str | None]:
    """How often each task is replayed, and the whole name of the *sweep* that is repeated, if one is.

    Raises:
        UsageError: there is no such sweep, it is of another suite, or it had fewer repetitions.
    """
    if sweep is None:
        return k or 1, None
    from store.sql.reader import Reader

    with Reader(store_of(world)) as reader:
        row = reader.find_sweep(sweep)
    if row.suite_id != suite.suite_id:
        raise UsageError(f"--from: sweep {row.name} is of the suite {row.suite_id!r}, not {suite.suite_id!r}")
    if row.mode != "live":
        raise UsageError(f"--from: sweep {row.name} was a {row.mode} itself; name a live one")
    if k is not None and k > row.repetitions:
        raise UsageError(f"--k: sweep {row.name} has {row.repetitions} repetitions of each task to replay, not {k}")
    return k or row.repetitions, row.name
