from __future__ import annotations

import py_compile
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from verifiers.aggregate import run_verifiers
from verifiers.base import Evidence
from verifiers.command import MAX_KEPT_BYTES, Command
from verifiers.tree_diff import TreeDiffWithin

pytestmark = pytest.mark.anyio

CHECK = Command(id="check", command=(sys.executable, "check.py"))
RIGHT = "def add(a, b):\n    return a + b\n"


def python(code: str, **more: Any) -> Command:
    return Command(id="c", command=(sys.executable, "-c", code), **more)


async def test_the_untouched_fixture_fails_and_says_what_the_check_printed(evidence: Callable[..., Evidence]) -> None:
    said = await CHECK.verify(evidence())
    assert said.verdict == "fail"
    assert said.detail["reason"] == "exit"
    assert said.detail["exitCode"] == 1
    assert "AssertionError" in said.detail["stderr"]


async def test_a_right_solution_passes(evidence: Callable[..., Evidence], workspace: Path) -> None:
    (workspace / "src" / "add.py").write_text(RIGHT)
    said = await CHECK.verify(evidence())
    assert (said.verdict, said.detail["exitCode"]) == ("pass", 0)


async def test_another_exit_code_and_texts_can_be_expected(evidence: Callable[..., Evidence]) -> None:
    code = "import sys; print('one'); print('two'); sys.exit(3)"
    passing = python(code, expect_exit=3, expect_stdout_includes=("one", "two"))
    missing = python(code, expect_exit=3, expect_stdout_includes="three")
    assert (await passing.verify(evidence())).verdict == "pass"
    said = await missing.verify(evidence())
    assert (said.verdict, said.detail["missing"]) == ("fail", ["three"])


async def test_no_shell_sees_the_arguments(evidence: Callable[..., Evidence], workspace: Path) -> None:
    quiet = Command(id="c", command=("printf", "%s", "$(touch pwned); `touch pwned` | touch pwned"))
    said = await quiet.verify(evidence())
    assert said.detail["stdout"].startswith("$(touch pwned)")
    assert not (workspace / "pwned").exists()


async def test_taking_too_long_is_a_fail(evidence: Callable[..., Evidence]) -> None:
    said = await python("while True: pass", timeout_ms=200).verify(evidence())
    assert (said.verdict, said.detail["reason"]) == ("fail", "timeout")


async def test_a_program_that_does_not_exist_is_an_error(evidence: Callable[..., Evidence]) -> None:
    said = await Command(id="c", command=("no-such-program-anywhere",)).verify(evidence())
    assert (said.verdict, said.detail["reason"]) == ("error", "not_started")


async def test_a_program_the_run_was_to_write_and_did_not_is_a_fail(evidence: Callable[..., Evidence]) -> None:
    said = await Command(id="c", command=("./built",)).verify(evidence())
    assert (said.verdict, said.detail["reason"]) == ("fail", "not_started")


async def test_a_workspace_that_is_gone_is_a_fail(evidence: Callable[..., Evidence], workspace: Path) -> None:
    taken = evidence()
    workspace.rename(workspace.with_name("elsewhere"))
    assert (await CHECK.verify(taken)).detail == {"reason": "workspace_gone"}


async def test_output_is_bounded_and_may_be_any_bytes(evidence: Callable[..., Evidence]) -> None:
    code = "import os; os.write(1, b'\\xff\\x00' * 3_000_000); raise SystemExit(1)"
    said = await python(code).verify(evidence())
    assert said.detail["truncated"] is True
    assert len(said.detail["stdout"]) <= MAX_KEPT_BYTES


async def test_only_the_given_environment_gets_through(
    evidence: Callable[..., Evidence], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET_KEY", "hunter2-hunter2")
    said = await python("import os; print(sorted(os.environ))").verify(evidence())
    assert "A_SECRET_KEY" not in said.detail["stdout"]
    assert "EVALCTL_ATTEMPT" in said.detail["stdout"]


async def test_an_edited_check_file_is_told_and_the_pristine_one_decides(
    evidence: Callable[..., Evidence], workspace: Path, fixture: Path
) -> None:
    (workspace / "check.py").write_text("print('all good')\n")
    taken = evidence()
    check, scope = await run_verifiers((CHECK, TreeDiffWithin(id="scope", allowed=("src/",))), taken)
    assert check.verdict == "fail"
    assert check.detail["tampered"] == ["check.py"]
    assert scope.verdict == "fail"  # the agent's version stays in the evidence
    assert next(c for c in taken.changes if c.path == "check.py").content == b"print('all good')\n"
    assert (workspace / "check.py").read_bytes() == (fixture / "check.py").read_bytes()


async def test_a_tampered_check_does_not_fail_a_right_solution_by_itself(
    evidence: Callable[..., Evidence], workspace: Path
) -> None:
    (workspace / "src" / "add.py").write_text(RIGHT)
    (workspace / "check.py").unlink()
    (check,) = await run_verifiers((CHECK,), evidence())
    assert (check.verdict, check.detail["tampered"]) == ("pass", ["check.py"])


async def test_a_check_file_that_may_be_changed_is_left_alone(
    evidence: Callable[..., Evidence], workspace: Path
) -> None:
    (workspace / "check.py").write_text("print('mine')\n")
    check, _ = await run_verifiers((CHECK, TreeDiffWithin(id="scope", allowed=("*.py",))), evidence())
    assert check.verdict == "pass"
    assert "tampered" not in check.detail


@pytest.mark.parametrize("trick", ["link", "directory", "parent link", "read-only", "mode"])
async def test_whatever_stands_in_the_place_of_a_check_file_is_replaced_not_followed(
    evidence: Callable[..., Evidence], workspace: Path, fixture: Path, tmp_path: Path, trick: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "check.py").write_text("print('all good')\n")
    (fixture / "deep").mkdir()
    (fixture / "deep" / "check.py").write_text("raise SystemExit(4)\n")
    place = workspace / "deep"
    if trick == "link":
        place.mkdir()
        (place / "check.py").symlink_to(outside / "check.py")
    elif trick == "directory":
        (place / "check.py" / "more").mkdir(parents=True)
    elif trick == "parent link":
        place.symlink_to(outside)
    elif trick == "read-only":
        place.mkdir()
        place.chmod(0o500)
    else:
        place.mkdir()
        (place / "check.py").write_bytes((fixture / "deep" / "check.py").read_bytes())
        (place / "check.py").chmod(0o755)
    check = Command(id="check", command=(sys.executable, "deep/check.py"))
    (said,) = await run_verifiers((check,), evidence())
    assert (said.verdict, said.detail["exitCode"]) == ("fail", 4)
    assert said.detail["tampered"] == ["deep/check.py"]
    assert (outside / "check.py").read_text() == "print('all good')\n"


async def _passes_without_protection(workspace: Path) -> bool:
    ended = await anyio.run_process([sys.executable, "check.py"], cwd=workspace, check=False)
    return ended.returncode == 0


async def test_bytecode_left_behind_does_not_stand_in_for_a_module(
    evidence: Callable[..., Evidence], workspace: Path
) -> None:
    evil = workspace / "evil.py"
    evil.write_text("def add(a, b):\n    return 5\n")
    cached = workspace / "src" / "__pycache__" / f"add.{sys.implementation.cache_tag}.pyc"
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(evil), cfile=str(cached), dfile="src/add.py", invalidation_mode=unchecked)
    evil.unlink()
    assert await _passes_without_protection(workspace)
    assert (await CHECK.verify(evidence())).verdict == "fail"


@pytest.mark.parametrize("wrong", [{"command": ()}, {"timeout_ms": 0}, {"timeout_ms": 600_001}])
def test_impossible_values_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Command(**({"id": "c", "command": ("true",)} | wrong))
