"""Whatever becomes of stdout and stderr, a sweep runs to its end and nobody sees a traceback."""

import json

import pytest

from tests.e2e.conftest import SCRIPT, MakeSuite, numbered, tiny
from tests.peers.driver import Driver


def redirected(how: str) -> tuple[str, ...]:
    return "sh", "-c", f'exec "$@" {how}', "sh"


def finished(evalctl: Driver) -> int:
    return evalctl.number("SELECT count(*) FROM current WHERE again = 0")


@pytest.fixture
def sweep(make_suite: MakeSuite) -> list[str]:
    return tiny(make_suite(numbered(2), scripts={f"task-{n}": SCRIPT for n in range(2)}), "--k", "2")


@pytest.mark.parametrize("how", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_nothing(evalctl: Driver, sweep: list[str], how: str) -> None:
    done = evalctl.run(*sweep, prefix=redirected(how))
    assert done.code == 0
    assert "warning" not in done.stdout, "what is meant for stderr went to stdout"
    assert finished(evalctl) == 4
    assert evalctl.run("show", "last", prefix=redirected(how)).code == 0


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_full_disk_under_stdout_is_told_in_a_sentence(evalctl: Driver, sweep: list[str], flags: tuple[str]) -> None:
    done = evalctl.run(*sweep, *flags, prefix=redirected("> /dev/full"))
    assert done.code == 1
    assert "standard output cannot be written: No space left on device" in done.stderr
    assert finished(evalctl) == 4


def test_records_that_nobody_reads_do_not_end_the_sweep(evalctl: Driver, sweep: list[str]) -> None:
    pipe = ("sh", "-c", '{ "$@"; echo $? > code; } | head -n 1', "sh")
    done = evalctl.run(*sweep, "--json", prefix=pipe)
    assert len([json.loads(line) for line in done.stdout.splitlines()]) == 1
    assert (evalctl.home / "code").read_text(encoding="ascii") == "1\n"
    assert finished(evalctl) == 4


def test_messages_that_nobody_reads_do_not_end_the_sweep(evalctl: Driver, sweep: list[str]) -> None:
    assert evalctl.run(*sweep, prefix=redirected("2> /dev/full")).code == 0
    assert finished(evalctl) == 4


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--seed", str(2**64)), ("--tasks", ""), ("--tasks", " , ")],
)
def test_values_that_cannot_be_meant_are_refused(evalctl: Driver, sweep: list[str], flag: str, value: str) -> None:
    done = evalctl.run(*sweep, f"{flag}={value}")
    assert done.code == 1
    assert flag in done.stderr
    assert evalctl.number("SELECT count(*) FROM sweep") == 0


def test_a_rate_beyond_all_measure_is_refused_before_the_first_run(evalctl: Driver, sweep: list[str]) -> None:
    done = evalctl.run(*sweep, "--input-rate=1e400", "--output-rate=1")
    assert done.code == 1
    assert "--input-rate" in done.stderr
    assert evalctl.number("SELECT count(*) FROM sweep") == 0
