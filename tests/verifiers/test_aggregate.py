from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import anyio
import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import UsageError
from store.rows import Verdict, VerdictWord
from verifiers.aggregate import are_read_only, combine_verdicts, run_verifiers
from verifiers.base import Evidence
from verifiers.command import Command
from verifiers.files import FileAbsent
from verifiers.pristine import find_check_files
from verifiers.tree_diff import TreeDiffWithin

WORDS = st.lists(st.sampled_from(["pass", "fail", "error"]))


@given(WORDS)
def test_an_error_outweighs_a_fail_and_a_fail_outweighs_a_pass(words: list[VerdictWord]) -> None:
    said = [Verdict(verifier=str(n), kind="k", verdict=word) for n, word in enumerate(words)]
    verdict, composite = combine_verdicts(said)
    assert verdict == next((word for word in ("error", "fail") if word in words), "pass" if words else "error")
    assert composite == {"pass": 1.0, "fail": 0.0, "error": None}[verdict]


@pytest.mark.anyio
async def test_judgements_come_in_the_order_of_the_file_though_commands_run_last(
    evidence: Callable[..., Evidence],
) -> None:
    leaves = Command(id="leaves", command=(sys.executable, "-c", "open('trace', 'w')"))
    said = await run_verifiers((leaves, FileAbsent(id="clean", path="trace")), evidence())
    assert [(one.verifier, one.verdict) for one in said] == [("leaves", "pass"), ("clean", "pass")]


PRINT_HOME = "import os; print(os.environ['HOME'], os.environ['TMPDIR'], os.listdir(os.environ['HOME']))"
PRINT_HOME += "; open(os.environ['HOME'] + '/left', 'w')"


@pytest.mark.anyio
async def test_every_command_gets_a_home_that_is_new_empty_and_gone_afterwards(
    evidence: Callable[..., Evidence], tmp_path: Path
) -> None:
    given = evidence(environment={"HOME": str(tmp_path), "TMPDIR": str(tmp_path)})
    said = await run_verifiers([Command(id=name, command=(sys.executable, "-c", PRINT_HOME)) for name in "ab"], given)
    homes = []
    for one in said:
        home, temporary, names = str(one.detail["stdout"]).split(" ", 2)
        assert (temporary, names.strip()) == (home, "[]")
        assert not Path(home).exists()
        homes.append(home)
    assert len({*homes, str(tmp_path)}) == 3


@pytest.mark.anyio
async def test_a_check_sees_no_repository_around_the_workspace(
    evidence: Callable[..., Evidence], tmp_path: Path
) -> None:
    await anyio.run_process(["git", "init", "-q", str(tmp_path)])
    for place in (".", "src"):
        command = Command(id="git", command=("git", "-C", place, "rev-parse"), expect_exit=128)
        said = await run_verifiers((command,), evidence())
        assert said[0].verdict == "pass", said


@pytest.mark.anyio
async def test_a_command_loads_no_packages_of_the_user(evidence: Callable[..., Evidence]) -> None:
    command = Command(id="site", command=(sys.executable, "-c", "import site; print(site.ENABLE_USER_SITE)"))
    said = await run_verifiers((command,), evidence())
    assert said[0].detail["stdout"] == "False\n"


def test_a_verifier_that_does_not_say_it_only_looks_may_do_anything() -> None:
    looks = (FileAbsent(id="clean", path="trace"), TreeDiffWithin(id="diff", allowed=()))
    assert are_read_only(looks)
    assert not are_read_only((*looks, Broken()))
    assert not are_read_only((*looks, Command(id="runs", command=("true",))))


@attrs.frozen(kw_only=True)
class Broken:
    kind: ClassVar[str] = "broken"
    id: str = "broken"

    async def verify(self, evidence: Evidence) -> Verdict:
        raise UsageError("out of order")


@pytest.mark.anyio
async def test_one_verifier_that_cannot_run_does_not_keep_the_others_from_judging(
    evidence: Callable[..., Evidence],
) -> None:
    broken, clean = await run_verifiers((Broken(), FileAbsent(id="clean", path="trace")), evidence())
    assert (broken.verdict, broken.detail["message"]) == ("error", "out of order")
    assert clean.verdict == "pass"


@pytest.mark.parametrize(
    ("command", "allowed", "protected"),
    [
        (("python3", "check.py"), (), ("check.py",)),
        (("python3", "./check.py"), ("src/",), ("check.py",)),
        (("tool", "--config=check.py"), (), ("check.py",)),
        (("python3", "check.py", "src/add.py"), ("src/add.py",), ("check.py",)),
        (("python3", "check.py"), ("*.py",), ()),
        (("python3", "nowhere.py", "src", "../fixture/check.py", "/etc/passwd", ""), (), ()),
    ],
)
def test_check_files_are_the_fixture_files_a_command_names_and_no_one_may_change(
    fixture: Path, command: tuple[str, ...], allowed: tuple[str, ...], protected: tuple[str, ...]
) -> None:
    scope = TreeDiffWithin(id="scope", allowed=allowed)
    assert find_check_files((Command(id="c", command=command), scope), fixture) == protected
