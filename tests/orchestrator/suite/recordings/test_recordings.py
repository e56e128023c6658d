"""What a replay plays: the cassettes of a directory, and why there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.installation import BUNDLED
from orchestrator.measured import config_hash
from orchestrator.suite.effects import Grants
from orchestrator.suite.formats.suite_json import read_suite
from orchestrator.suite.recordings.recordings import UNKNOWN_MODEL, read_recordings
from orchestrator.suite.settings import Settings
from providers.base import AgentSettings
from providers.recording.divergence import NotRecorded


def test_what_makes_a_missing_cassette_is_told_with_the_directory_as_it_is_called(tmp_path: Path) -> None:
    suite = read_suite(BUNDLED / "demo", bundled=True)
    directory = tmp_path / "TASKS"
    agent = AgentSettings()
    settings = Settings(
        suite=suite.suite_id,
        cassette_dir=str(directory),
        provider="replay",
        model=UNKNOWN_MODEL,
        agent=agent,
        config_hash=config_hash(agent),
        grants=Grants(),
    )
    task = suite.tasks[0].id
    with pytest.raises(NotRecorded) as caught:
        read_recordings(suite, suite.tasks, settings).find_cassette(task, 3)
    assert f"no cassette in {directory}; `evalctl record demo --tasks {task}` makes one" in str(caught.value)
