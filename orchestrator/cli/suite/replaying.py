"""Open the recordings of a replay."""

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
    """Open the recordings; return the settings with their model and checksums, and the player.

    Warns of differences from recording time that will probably cause a divergence.

    Raises:
        UsageError: recordings cannot be used, or have changed since the sweep was planned.
    """
    recordings = _find_recordings(suite, tasks, settings, store)
    checks = recordings.list_checksums()
    if settings.played and (changed := sorted(dict(checks.items() ^ settings.played.items()))):
        raise UsageError(
            f"the cassettes have changed since the sweep was planned: {', '.join(changed)}",
            "Restore them, or start a new replay.",
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


def remove_provider(config: Config) -> Config:
    """Remove provider, model, endpoint and key from the configuration: a replay sends no requests."""
    return attrs.evolve(config, provider=None, model=None, base_url=None, api_key_env=None)


def count_repetitions(sweep: str | None, suite: Suite, k: int | None, world: World) -> tuple[int, str | None]:
    """Return the repetitions of each task in the replay, and the full name of *sweep*; None for cassettes.

    Raises:
        UsageError: there is no such sweep, it ran another suite, it was no live one, or it had fewer repetitions.
    """
    if sweep is None:
        return k or 1, None
    from store.sql.reader import Reader

    with Reader(store_of(world)) as reader:
        row = reader.find_sweep(sweep)
    if row.suite_id != suite.suite_id:
        raise UsageError(f"--from: sweep {row.name} ran the suite {row.suite_id!r}, not {suite.suite_id!r}")
    if row.mode != "live":
        raise UsageError(f"--from: sweep {row.name} is itself a {row.mode}; name a live one")
    if k is not None and k > row.repetitions:
        raise UsageError(f"--k: sweep {row.name} has {row.repetitions} repetitions of each task to replay, not {k}")
    return k or row.repetitions, row.name
