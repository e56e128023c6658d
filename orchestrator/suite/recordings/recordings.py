"""What a replay plays: the recordings of a suite's tasks, from cassettes or from a stored sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from orchestrator.measured import config_hash
from orchestrator.suite.effects import make_policy
from orchestrator.suite.model import Suite, Task
from orchestrator.suite.recordings.cassettes import (
    find_cassette_directory,
    list_recorded_tasks,
    make_rules,
    read_cassette,
)
from orchestrator.suite.settings import Settings
from providers.recording.cassette import Cassette
from providers.recording.divergence import NotRecorded
from providers.recording.replay import Replay
from store.errors import UsageError

UNKNOWN_MODEL = "none"
"""The model of a replay that has nothing to play."""


@attrs.frozen(kw_only=True)
class Recordings:
    """The recordings that a replay may need."""

    cassettes: Mapping[tuple[str, int], Cassette]
    """By task and repetition; those of a directory are all of repetition 0, and serve every one."""
    missing: Mapping[tuple[str, int], str] = attrs.field(factory=dict)
    """Why there is none, where there is more to say than that."""
    any_repetition: bool = True

    def find_cassette(self, task: str, repetition: int) -> Cassette:
        """The recording of a run.

        Raises:
            NotRecorded: there is none; says how to make one.
        """
        key = (task, 0 if self.any_repetition else repetition)
        if key in self.cassettes:
            return self.cassettes[key]
        raise NotRecorded(task, self.missing.get(key, "there is no cassette; `evalctl record SUITE` makes one"))

    @property
    def model(self) -> str:
        """The model that was recorded; all of them, where there are several."""
        models = sorted({cassette.header.model for cassette in self.cassettes.values()})
        return ", ".join(models) or UNKNOWN_MODEL

    def list_checks(self) -> dict[str, str]:
        """What tells the cassettes that are played from others, by task."""
        return {task: one.check for (task, _), one in sorted(self.cassettes.items()) if one.check}

    def make_replayer(self, suite: Suite) -> Replay:
        """Who plays them."""
        rules = {task.id: make_rules(task) for task in suite.tasks}
        return Replay(self.find_cassette, rules.__getitem__)


def read_recordings(suite: Suite, tasks: Sequence[Task], settings: Settings) -> Recordings:
    """The cassettes of *tasks*.

    Raises:
        UsageError: cassettes cannot be used; all of them are told at once.
    """
    directory = find_cassette_directory(suite, settings.cassette_dir)
    chosen = {task.id for task in tasks}
    cassettes: dict[tuple[str, int], Cassette] = {}
    problems: list[UsageError] = []
    for task in list_recorded_tasks(suite, directory):
        if task.id in chosen:
            try:
                cassettes[task.id, 0] = read_cassette(suite, task, directory)
            except UsageError as error:
                problems.append(error)
    if problems:
        raise UsageError("\n".join(error.problem for error in problems), problems[0].hint)
    record = f"there is no cassette in {directory}; `evalctl record {suite.suite_id} --tasks"
    return Recordings(
        cassettes=cassettes,
        missing={(task.id, 0): f"{record} {task.id}` makes one" for task in tasks if (task.id, 0) not in cassettes},
    )


def find_differences(recordings: Recordings, tasks: Sequence[Task], settings: Settings) -> Iterator[str]:
    """What is otherwise than when it was recorded, and will likely show as a divergence."""
    configured = []
    granted = []
    for task in tasks:
        headers = [one.header for (name, _), one in recordings.cassettes.items() if name == task.id][:1]
        for header in headers:
            if header.config_hash != config_hash(settings.agent_for(task.agent)):
                configured.append(task.id)
            if tuple(sorted(make_policy(task, settings.grants).granted)) != header.effects:
                granted.append(task.id)
    if configured:
        yield (
            f"warning: {', '.join(configured)}: recorded with another configuration, so the requests may differ. To "
            'replay with an empty configuration, set EVALCTL_CONFIG_HOME="$(mktemp -d)"'
        )
    if granted:
        yield f"warning: {', '.join(granted)}: recorded with permissions that differ from those granted now"
