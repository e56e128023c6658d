"""An answer whose bytes are no text is recorded, and played back as it was understood."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.conftest import MakeSuite, against
from tests.peers.driver import Driver, running_endpoint

SPOKEN = "SELECT DISTINCT payload FROM event WHERE kind = 'text'"


def test_bytes_that_are_no_utf8_are_recorded_and_replayed(
    evalctl: Driver, make_suite: MakeSuite, tmp_path: Path
) -> None:
    suite = make_suite({"a": "Say that it is done."})
    given = ("tiny", "--suite-dir", suite, "--yes")
    with running_endpoint(tmp_path / "faulty.jsonl", program="faults", more=("--fault", "bad-utf8")) as endpoint:
        done = evalctl.run("record", *given, *against(endpoint))
        assert done.code == 0, done.stderr
        said = evalctl.query(SPOKEN)
    assert "\\ufffd" in said[0][0], "what could not be read is told to be so"
    replayed = evalctl.run("run", *given, "--mode", "replay", "--k", "2")
    assert replayed.code == 0, replayed.stdout + replayed.stderr
    assert len(evalctl.query(SPOKEN)) == len(said) == 1
