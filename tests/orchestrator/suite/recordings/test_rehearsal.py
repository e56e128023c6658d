"""Recording with nothing of the user's in it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from orchestrator.suite.recordings.rehearsal import record_bundled
from orchestrator.world import real_world
from store.errors import UsageError


def test_a_machine_without_a_temporary_directory_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", list)
    with pytest.raises(UsageError, match=r"there is no temporary directory: .*\n.*TMPDIR"):
        record_bundled(["smoke-coding/fix-add"], tmp_path / "out", real_world(), print)
    assert list(tmp_path.iterdir()) == []
