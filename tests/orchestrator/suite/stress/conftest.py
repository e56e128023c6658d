import os
import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks' `python3` is the one that runs the tests: whatever else the machine calls so may be slow to start."""
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))  # noqa: TID251 - a test is its own edge
