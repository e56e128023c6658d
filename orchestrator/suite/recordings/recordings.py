"""Recordings of a suite's tasks for a replay, from cassette files or from a stored sweep."""

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
"""Name of the model in a replay without cassettes."""


@attrs.frozen(kw_only=True)
class Recordings:
    """The cassettes that a replay may need."""

    cassettes: Mapping[tuple[str, int], Cassette]
    """Cassettes by task id and repetition. Cassette files have repetition 0 and serve every repetition."""
    missing: Mapping[tuple[str, int], str] = attrs.field(factory=dict)
    """Reasons for missing cassettes, by task id and repetition; a cassette may be missing without a reason."""
    any_repetition: bool = True

    def find_cassette(self, task: str, repetition: int) -> Cassette:
        """Return the cassette of a run.

        Raises:
            NotRecorded: there is no cassette; the message says how to make one.
        """
        key = (task, 0 if self.any_repetition else repetition)
        if key in self.cassettes:
            return self.cassettes[key]
        raise NotRecorded(task, self.missing.get(key, "there is no cassette; `evalctl record SUITE` makes one"))

    @property
    def model(self) -> str:
        """The recorded model; all of them, separated by commas, if there are several."""
        models = sorted({cassette.header.model for cassette in self.cassettes.values()})
        return ", ".join(models) or UNKNOWN_MODEL

    def list_checksums(self) -> dict[str, str]:
        """Return the checksums of the cassettes by task id, by which `resume` recognizes them."""
        return {task: cassette.check for (task, _), cassette in sorted(self.cassettes.items()) if cassette.check}

    def make_replayer(self, suite: Suite) -> Replay:
        """Make the provider that replays the cassettes."""
        rules = {task.id: make_rules(task) for task in suite.tasks}
        return Replay(self.find_cassette, rules.__getitem__)


def read_recordings(suite: Suite, tasks: Sequence[Task], settings: Settings) -> Recordings:
    """Read the cassette files of *tasks*.

    Raises:
        UsageError: cassettes cannot be used; names all of them.
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
    """Yield warnings of differences from recording time that will probably cause a divergence."""
    configured = []
    granted = []
    for task in tasks:
        headers = [cassette.header for (name, _), cassette in recordings.cassettes.items() if name == task.id][:1]
        for header in headers:
            if header.config_hash != config_hash(settings.select_agent(task.agent)):
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
