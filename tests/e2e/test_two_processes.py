"""Several processes on one store: they share a sweep, wait for each other, and never count a run twice."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.e2e.conftest import MakeSuite, against, numbered, tiny
from tests.peers.driver import Driver, Endpoint, Started, marked, until

LATE = (
    "SELECT count(*) FROM outcome WHERE NOT EXISTS (SELECT 1 FROM result WHERE result.attempt_id = outcome.attempt_id)"
)


def stopped_inside_a_commit(evalctl: Driver, started: Started) -> bool:
    """Stop the process; whether it holds the turnstile now. It goes on when it does not."""
    if evalctl.turnstile_is_free():
        return False
    started.signal(signal.SIGSTOP)
    until(lambda: state_of(started) == "T", "the process to stop")
    if not evalctl.turnstile_is_free():
        return True
    started.signal(signal.SIGCONT)
    return False


def state_of(started: Started) -> str:
    with open(f"/proc/{started.process.pid}/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123 - a kernel file
        return file.read().rpartition(")")[2].split()[0]


def test_one_of_two_is_stopped_and_its_late_results_do_not_count(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    endpoint.plan({"do": {"latency_ms": 40}})
    suite = make_suite(numbered(5))
    flags = ("--k", "80", "--concurrency", "10", *against(endpoint))
    first = evalctl.start(*tiny(suite, *flags))
    until(lambda: endpoint.counts()["answered"] >= 40, "40 answers")
    second = evalctl.start("resume", "last", "--concurrency", "10")
    until(lambda: evalctl.number("SELECT count(DISTINCT worker_id) FROM attempt") == 2, "the second's first claim")
    with evalctl.turnstile_held():  # nobody is inside a commit now
        first.signal(signal.SIGSTOP)
        until(lambda: state_of(first) == "T", "the first to stop")
    assert second.finish().code == 0
    assert evalctl.number("SELECT count(*) FROM current WHERE again = 0") == 400
    assert state_of(first) == "T"
    first.signal(signal.SIGCONT)
    assert first.finish().code == 0
    assert evalctl.number("SELECT count(*) FROM current WHERE again = 0") == 400
    evalctl.assert_sound()
    late = evalctl.number(LATE)
    assert late >= 1
    assert evalctl.number("SELECT count(*) FROM outcome") == 400 + late
    answered = [line for line in endpoint.idle() if line["status"] == 200 and not line["gone"]]
    assert evalctl.number("SELECT sum(input_tokens) FROM outcome") == sum(line["input_tokens"] for line in answered)
    assert evalctl.number("SELECT sum(output_tokens) FROM outcome") == sum(line["output_tokens"] for line in answered)


def test_a_process_stopped_inside_a_commit_is_named_waited_for_and_goes_on(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    suite = make_suite(numbered(5))
    flags = ("--k", "60", "--concurrency", "8", *against(endpoint))
    first = evalctl.start(*tiny(suite, *flags))
    until(lambda: evalctl.number("SELECT count(*) FROM outcome"), "the first outcome")
    until(lambda: stopped_inside_a_commit(evalctl, first), "a commit to stop in", every_s=0.0002)
    second = evalctl.start("resume", "last")
    until(lambda: str(first.process.pid) in second.said(), "the second to name whom it waits for", patience_s=30)
    assert second.process.poll() is None
    first.signal(signal.SIGCONT)
    assert first.finish().code == 0
    assert second.finish().code == 0
    assert evalctl.number("SELECT count(*) FROM current WHERE again = 0") == 300
    evalctl.assert_sound()


def test_eight_processes_start_on_an_absent_store(evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite) -> None:
    suite = make_suite(numbered(2))
    flags = tiny(suite, "--k", "2", *against(endpoint))
    started = [evalctl.start(*flags) for _ in range(8)]
    assert [one.finish().code for one in started] == [0] * 8
    assert len(set(evalctl.sweep_names())) == 8
    assert evalctl.number("SELECT count(*) FROM current") == 32
    evalctl.assert_sound()


def test_what_a_killed_one_left_behind_is_gone_when_the_other_ends(
    evalctl: Driver, make_suite: MakeSuite, tmp_path: Path
) -> None:
    gate = tmp_path / "go"
    command = f"setsid sleep 300 & while [ ! -e {gate} ]; do sleep 0.05; done"
    call = {"id": "c", "name": "bash", "arguments": {"command": command}}
    script = {"format": "evalctl.script/1", "plays": [{"answers": [{"toolCalls": [call]}, {"text": "done"}]}]}
    suite = make_suite(numbered(1), allow=["process"], scripts={"task-0": script})
    first = evalctl.start(*tiny(suite, "--k", "3", "--concurrency", "1", "--allow-process"))
    until(lambda: len(marked(evalctl.sweep_names())) >= 2, "the first's tool call")
    second = evalctl.start("resume", "last", "--concurrency", "1")
    until(lambda: evalctl.number("SELECT count(DISTINCT worker_id) FROM attempt") == 2, "the second's first claim")
    first.kill()
    gate.touch()
    assert second.finish().code == 0
    assert evalctl.number("SELECT count(*) FROM current WHERE again = 0") == 3
    assert marked(evalctl.sweep_names()) == []
    assert not list((evalctl.home / "tmp").glob("evalctl-*"))
