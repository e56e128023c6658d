"""Evidence as a run leaves it: a fixture, and a workspace that differs from it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from providers.system.tree import list_changes, take_snapshot
from verifiers.base import Evidence


@pytest.fixture
def fixture(tmp_path: Path) -> Path:
    root = tmp_path / "fixture"
    (root / "src").mkdir(parents=True)
    (root / "src" / "add.py").write_text("def add(a, b):\n    return a - b\n", encoding="utf-8")
    (root / "check.py").write_text(
        "import sys\nsys.path.insert(0, 'src')\nfrom add import add\nassert add(2, 3) == 5\nprint('all good')\n",
        encoding="utf-8",
    )
    return root


@pytest.fixture
def workspace(fixture: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(fixture, tmp_path / "work"))


@pytest.fixture
def evidence(fixture: Path, workspace: Path) -> Callable[..., Evidence]:
    def taken(**given: Any) -> Evidence:
        found: dict[str, Any] = {
            "workspace": workspace,
            "fixture": fixture,
            "changes": list_changes(take_snapshot(fixture), workspace),
            "tools": (),
            "marker": "sweep-00000000/1/1",
            "environment": {"PATH": os.environ["PATH"]},  # noqa: TID251 - a test is its own edge
        }
        return Evidence(**(found | given))

    return taken
