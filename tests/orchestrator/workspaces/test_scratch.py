import tempfile
from pathlib import Path

import pytest

from orchestrator.workspaces.scratch import remove_homes
from providers.system.marks import build_home_prefix


def test_homes_of_dead_attempts_are_removed_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    homes = {name: tmp_path / f"{build_home_prefix(name)}x1y2" for name in ("s/1/1", "s/1/2", "s/11/1", "t/1/1")}
    for home in homes.values():
        home.mkdir()
        (home / "kept").touch()
    (tmp_path / "evalctl-home-").mkdir()

    assert remove_homes(set()) == 0
    assert remove_homes({("s", 1, 1), ("s", 1, 3)}) == 1
    assert not homes["s/1/1"].exists()
    assert [home.exists() for name, home in homes.items() if name != "s/1/1"] == [True, True, True]
