"""What the command line says about the sandbox; the sandbox itself is tested where bubblewrap is (`make peers`)."""

from pathlib import Path

from tests.e2e.conftest import SCRIPT, MakeSuite, numbered, tiny
from tests.peers.driver import Driver


def test_a_sandbox_that_cannot_be_had_is_told_before_anything_starts(
    evalctl: Driver, make_suite: MakeSuite, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    evalctl.environment["PATH"] = str(tmp_path / "bin")
    done = evalctl.run(*tiny(make_suite(numbered(1), scripts={"task-0": SCRIPT}), "--sandbox", "bwrap"))
    assert (done.code, done.stdout) == (1, "")
    assert "bwrap is not on PATH" in done.stderr
    assert "--sandbox none" in done.stderr
    assert evalctl.sweep_names() == []


def test_an_unknown_sandbox_is_refused_with_those_there_are(evalctl: Driver, make_suite: MakeSuite) -> None:
    done = evalctl.run(*tiny(make_suite(numbered(1)), "--sandbox", "jail"))
    assert done.code == 1
    for word in ("--sandbox", "none", "bwrap", "jail"):
        assert word in done.stderr


def test_no_sandbox_is_a_condition_too(evalctl: Driver, make_suite: MakeSuite) -> None:
    suite = make_suite(numbered(1), scripts={"task-0": SCRIPT})
    done = evalctl.run("--json", *tiny(suite, "--k", "1"))
    assert done.code == 0, done.stderr
    assert done.json["conditions"]["sandbox"] == "none"
