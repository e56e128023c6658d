"""A few of the crash driver's sweeps: each named point that no other test kills at, and one at any moment."""

from pathlib import Path

import pytest

from tests.crash.driver import NAMED_EVERY, story
from tests.crash.points import POINTS

NAMES = list(POINTS)
HERE = ("store opened", "plan stored", "in a verifier", "before a retry", "before the report")
NUMBERS = [*(NAMES.index(name) * NAMED_EVERY for name in HERE), 1]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_sweep_that_is_killed_until_it_is_done_loses_and_doubles_nothing(tmp_path: Path, number: int) -> None:
    told = story(tmp_path, number, seed=0)
    assert told.wrong == ""
