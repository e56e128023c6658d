"""Recording and replay of suites for `record --bundled` and `ci`, independent of the user's configuration.

Both use an empty configuration, fixed permissions, and a store of their own.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import anyio
import attrs

from orchestrator.engine import sweep
from orchestrator.engine.worker import SweepEnd, WorkerSetup
from orchestrator.installation import BUNDLED
from orchestrator.measured import config_hash
from orchestrator.suite.catalog import find_places, read_place
from orchestrator.suite.effects import Grants, refuse_ungranted
from orchestrator.suite.kind import SuiteKind
from orchestrator.suite.model import Suite, Task
from orchestrator.suite.recordings.cassettes import FOLDER, find_cassette_directory, list_recorded_tasks
from orchestrator.suite.recordings.recordings import find_differences, read_recordings
from orchestrator.suite.recordings.taping import Taping
from orchestrator.suite.report.model import Report
from orchestrator.suite.report.write import write_report
from orchestrator.suite.settings import Settings
from orchestrator.workspaces.scratch import find_temporary_directory
from orchestrator.world import World
from providers.agent.loop import BuiltinAgent
from providers.base import AgentSettings
from providers.registry import ProviderOptions, find_provider
from store.errors import UsageError
from store.secrets.redactor import Redactor, find_credentials
from store.sql.reader import Reader

GRANTS = Grants(effects=frozenset({"write", "process"}))
"""Permissions that the bundled tasks need."""
SCRIPTED = "scripted"

Say = Callable[[str], None]


@attrs.frozen(kw_only=True)
class ReplayedSuite:
    """Result of replaying one suite."""

    suite_id: str
    directory: Path | None
    """Directory of the report; None if there was nothing to replay."""
    report: Report | None
    end: SweepEnd | None

    @property
    def diverged(self) -> int:
        """Number of runs that diverged from their recording."""
        return 0 if self.report is None else self.report.summary.errored.get("replay_divergence", 0)

    @property
    def replayed(self) -> int:
        """Number of runs that had a recording."""
        return 0 if self.report is None else self.report.summary.planned - self.skipped

    @property
    def skipped(self) -> int:
        """Number of tasks without a recording."""
        return 0 if self.report is None else self.report.summary.skipped.get("no_cassette", 0)

    @property
    def passed(self) -> bool:
        """True if every run that had a recording was replayed to its end and passed."""
        return self.report is None or self.report.summary.passes == self.replayed


def record_bundled(tasks: Sequence[str], out: Path | None, world: World, say: Say) -> bool:
    """Record tasks of the bundled suites with the scripted provider; return whether every task was recorded.

    After a signal, the suite in progress is the last one.

    Args:
        tasks: names as `suite/task`; empty selects the tasks that already have cassettes.
        out: parent of one directory for each suite; None is each suite's own directory.
        world: clocks and environment.
        say: prints one line.

    Raises:
        UsageError: a task is unknown, a cassette is refused, or there is no temporary directory.
    """
    whole = True
    for suite, chosen in _select_bundled(tasks):
        directory = suite.root / FOLDER if out is None else out / suite.suite_id
        settings = _make_settings(suite, chosen, mode="live", directory=directory, provider=SCRIPTED)
        provider = find_provider(SCRIPTED)(ProviderOptions(model=SCRIPTED, suite_root=suite.root))
        with tempfile.TemporaryDirectory(prefix="evalctl-record-", dir=find_temporary_directory()) as folder:
            store = Path(folder) / "runs.db"
            redactor = Redactor(find_credentials(world.environment))
            taping = Taping(suite=suite, tasks=chosen, settings=settings, redactor=redactor)
            kind = taping.record_kind(SuiteKind(suite=suite, tasks=chosen, settings=settings, provider=provider))
            setup = _make_setup(kind, store=store, world=world)
            end = anyio.run(partial(sweep.start_sweep, setup, command="record", purpose="record"))
            whole = taping.write_cassettes(store, end.name, say) and whole
        if end.signal is not None:
            return False
    return whole


def replay_suites(
    places: Mapping[str, Suite], cassettes: str | None, out: Path, world: World, say: Say
) -> list[ReplayedSuite]:
    """Replay every suite that has cassettes, each into its own directory below *out*; return the results.

    After a signal, the suite in progress is the last one.

    Raises:
        UsageError: a cassette cannot be used, or a task requests more than `GRANTS`.
    """
    results = []
    for suite in places.values():
        results.append(_replay_suite(suite, cassettes, out, world, say))
        if (end := results[-1].end) is not None and end.signal is not None:
            break
    return results


def _replay_suite(suite: Suite, cassettes: str | None, out: Path, world: World, say: Say) -> ReplayedSuite:
    directory = find_cassette_directory(suite, cassettes)
    tasks = suite.tasks
    if not list_recorded_tasks(suite, directory):
        return ReplayedSuite(suite_id=suite.suite_id, directory=None, report=None, end=None)
    settings = _make_settings(suite, tasks, mode="replay", directory=directory, provider="replay")
    refuse_ungranted(list_recorded_tasks(suite, directory), settings.grants)
    recordings = read_recordings(suite, tasks, settings)
    for warning in find_differences(recordings, tasks, settings):
        say(warning)
    settings = attrs.evolve(settings, model=recordings.model)
    player = recordings.make_replayer(suite)
    store = out / "runs.db"
    kind = SuiteKind(
        suite=suite, tasks=tasks, settings=settings, provider=player, subject=player.wrap_subjects(BuiltinAgent)
    )
    setup = attrs.evolve(_make_setup(kind, store=store, world=world), say=say)
    end = anyio.run(partial(sweep.start_sweep, setup, command="ci", purpose="ci"))
    with Reader(store) as reader:
        report = write_report(reader, reader.find_sweep(end.name), out / suite.suite_id)
    return ReplayedSuite(suite_id=suite.suite_id, directory=out / suite.suite_id, report=report, end=end)


def _select_bundled(tasks: Sequence[str]) -> list[tuple[Suite, tuple[Task, ...]]]:
    """Select the bundled suites with the tasks to record.

    Raises:
        UsageError: a task is unknown, or no bundled suite has cassettes.
    """
    suites = [listed.suite for place in find_places(None) if (listed := read_place(place)).suite is not None]
    known = {f"{suite.suite_id}/{task.id}" for suite in suites for task in suite.tasks}
    if unknown := sorted(set(tasks) - known):
        from store.documents.structure import suggest_nearest  # noqa: PLC0415 - start-up: loads cattrs

        raise UsageError(
            f"--tasks: there is no bundled task "
            f"{', '.join(f'{name!r}{suggest_nearest(name, known)}' for name in unknown)}",
            "Name it as suite/task; `evalctl list` shows the suites.",
        )
    chosen = []
    for suite in suites:
        recorded = list_recorded_tasks(suite, suite.root / FOLDER)
        wanted = tuple(task for task in suite.tasks if f"{suite.suite_id}/{task.id}" in tasks) if tasks else recorded
        if wanted:
            chosen.append((suite, wanted))
    if not chosen:
        raise UsageError(f"no bundled suite below {BUNDLED} has cassettes", "Name tasks: --tasks suite/task")
    return chosen


def _make_settings(suite: Suite, tasks: Sequence[Task], *, mode: str, directory: Path, provider: str) -> Settings:
    agent = AgentSettings()
    return Settings(
        suite=suite.suite_id,
        tasks=tuple(task.id for task in tasks),
        k=1,
        mode=mode,
        cassette_dir=str(directory.absolute()),
        provider=provider,
        model=SCRIPTED,
        agent=agent,
        config_hash=config_hash(agent),
        grants=GRANTS,
    )


def _make_setup(kind: SuiteKind, *, store: Path, world: World) -> WorkerSetup:
    return WorkerSetup(
        kind=kind,
        redactor=Redactor(find_credentials(world.environment)),
        store=store,
        world=world,
        say=lambda _text: None,
        terminal=False,
    )
