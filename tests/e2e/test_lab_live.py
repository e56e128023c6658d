"""`lab live`, `lab record` and `resume` of both, against a real endpoint that counts."""

import contextlib
import json
import os
import pty
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.lab_files import VERDICT, answering, run_directory, said, write_fixture, write_lab
from tests.peers.driver import Driver, Endpoint, Started, marked, running_endpoint, until

TEN = [f"case-{number}" for number in range(10)]


@pytest.fixture
def house(endpoint: Endpoint) -> Endpoint:
    """An endpoint that allows everything."""
    endpoint.plan(answering())
    return endpoint


def test_a_budget_stops_a_live_lab_and_resume_runs_only_the_rest(evalctl: Driver, house: Endpoint) -> None:
    write_lab(evalctl.home, house.url, fixtures=TEN, repeat=3, budget={"max_calls": 50})

    stopped = evalctl.run("lab", "live", "--yes")

    assert stopped.code == 1, stopped.stderr
    assert len(house.idle()) == 50
    assert "--max-calls leaves no room for the next request" in stopped.stderr
    assert "10 skipped" in stopped.stdout
    directory = run_directory(evalctl.home)
    assert {file.name for file in directory.iterdir()} == {"manifest.json", "results.jsonl", "report.md"}
    results = [json.loads(line) for line in (directory / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [one["outcome"] for one in results].count("pass") == 50

    again = evalctl.run("resume", "last", "--max-calls", "100")

    assert again.code == 0, again.stderr
    lines = house.idle()
    assert len(lines) == 60
    runs = [line["key"].rsplit("/", 2)[0] for line in lines]
    assert len(set(runs)) == 60
    results = [json.loads(line) for line in (directory / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [one["outcome"] for one in results] == ["pass"] * 60
    evalctl.assert_sound()


def test_without_a_yes_nobody_is_asked_and_what_would_be_is_said(evalctl: Driver, house: Endpoint) -> None:
    targets = {
        "jev": {"backend": "house", "model": "jev-1"},
        "nimble": {"backend": "house", "model": "nimble-1", "local": True},
        "other": {"backend": "house", "model": "other-1"},
    }
    write_lab(
        evalctl.home,
        house.url,
        fixtures=["a", "b"],
        repeat=3,
        targets=targets,
        budget={"max_calls": 5, "max_cost_usd": 0.5},
        prices={"jev-1": {"input_per_mtok": 1.0, "output_per_mtok": 2.5}},
    )

    refused = evalctl.run("lab", "live")

    assert refused.code == 1
    assert "needs a confirmation, but stdin is no terminal" in refused.stderr
    assert "lab lab: 2 fixtures, 3 targets, 3 repetitions: 18 runs" in refused.stderr
    assert "at most 18 calls, and retries; stopped at 5" in refused.stderr
    assert "cost: stopped at 0.5 USD" in refused.stderr
    assert "target jev (jev-1 at house): 1 in, 2.5 out, USD per million tokens" in refused.stderr
    assert "target nimble (nimble-1 at house): local, costs nothing" in refused.stderr
    assert (
        "target other (other-1 at house): no price: its cost stays unknown, and the cap on cost does not count it"
        in (refused.stderr)
    )
    assert house.idle() == []
    assert evalctl.sweep_names() == []


@pytest.mark.parametrize("verb", ["live", "record"])
def test_without_a_budget_nobody_is_asked(evalctl: Driver, house: Endpoint, verb: str) -> None:
    root = write_lab(evalctl.home, house.url, budget=None)

    refused = evalctl.run("lab", verb, "--yes", "--max-calls", "3")

    assert refused.code == 1
    assert f"{root}/lab.yaml: it has no budget" in refused.stderr
    assert house.idle() == []


def test_flags_narrow_what_is_asked_and_replace_the_budget(evalctl: Driver, house: Endpoint) -> None:
    write_lab(evalctl.home, house.url, fixtures=TEN, repeat=3)

    done = evalctl.run(
        "lab", "live", "gate", "--fixture", "case-1,case-2", "--fixture", "case-3", "--target", "jev", "--yes",
        "--repeat", "2", "--max-calls", "4", "--out", "here", "--json",
    )  # fmt: skip

    assert done.code == 1
    assert len(house.idle()) == 4
    assert done.json["schema"] == "evalctl.lab-report/1"
    assert done.json["summary"]["planned"] == 6
    assert (evalctl.home / "here" / "report.md").is_file()


def test_a_measurement_that_was_completed_is_0_whatever_it_measured(evalctl: Driver, endpoint: Endpoint) -> None:
    endpoint.plan(answering("deny"))
    write_lab(evalctl.home, endpoint.url)

    done = evalctl.run("lab", "live", "--yes")

    assert done.code == 0, done.stderr
    assert "FAILED gate/one" in done.stdout
    assert "listing is harmless" in done.stdout


def test_an_error_of_infrastructure_is_1_and_resume_errors_runs_it_again(evalctl: Driver, endpoint: Endpoint) -> None:
    endpoint.plan({"do": {"status": 503, "retry_after": 900}})
    write_lab(evalctl.home, endpoint.url)

    failed = evalctl.run("lab", "live", "--yes")
    endpoint.plan(answering())
    again = evalctl.run("resume", "last", "--errors")

    assert failed.code == 1
    assert again.code == 0, again.stderr
    assert [line["status"] for line in endpoint.idle()].count(200) == 2


def test_ctrl_c_and_kill_leave_a_sweep_that_resume_finishes(evalctl: Driver, endpoint: Endpoint) -> None:
    endpoint.plan(answering(hold=0))
    write_lab(evalctl.home, endpoint.url, fixtures=TEN)

    started = evalctl.start("lab", "live", "--yes", "--concurrency", "2")
    until(lambda: endpoint.counts()["held"] == 2, "two held answers")
    started.signal(signal.SIGINT)
    until(lambda: "Ctrl-C" in started.said(), "the word of it")
    endpoint.release(2)
    interrupted = started.finish()

    assert interrupted.code == 130
    assert (run_directory(evalctl.home) / "report.md").is_file()

    killed = evalctl.start("resume", "last", "--concurrency", "2")
    until(lambda: endpoint.counts()["held"] == 2, "two more held answers")
    killed.kill()
    endpoint.release()
    done = evalctl.run("resume", "last")

    assert done.code == 0, done.stderr
    assert len(evalctl.finished_positions()) == 20
    evalctl.assert_sound()


def test_a_changed_lab_is_not_resumed(evalctl: Driver, house: Endpoint) -> None:
    root = write_lab(evalctl.home, house.url, fixtures=TEN, budget={"max_calls": 5})
    evalctl.run("lab", "live", "--yes")
    write_fixture(root, "case-3", command="ls elsewhere")

    refused = evalctl.run("resume", "last", "--max-calls", "100")

    assert refused.code == 1
    assert "the lab has changed since it was planned: fixtures/gate/case-3.yaml" in refused.stderr
    assert "`evalctl lab live`" in refused.stderr
    assert len(house.idle()) == 5


def test_what_records_is_what_is_played(evalctl: Driver, house: Endpoint) -> None:
    root = write_lab(evalctl.home, house.url, fixtures=["a", "b"])

    before = evalctl.run("lab", "offline")
    recorded = evalctl.run("lab", "record", "--yes")
    after = evalctl.run("lab", "offline")

    assert before.code == 1
    assert "every run was skipped" in before.stderr
    assert recorded.code == 0, recorded.stderr
    assert "wrote cassettes/gate/a/jev.json" in recorded.stderr
    assert "4 cassettes written" in recorded.stderr
    assert len(house.idle()) == 4
    assert after.code == 0, after.stderr
    assert "4 of 4 judged runs passed" in after.stdout
    cassette = json.loads((root / "cassettes" / "gate" / "a" / "jev.json").read_text(encoding="utf-8"))
    assert set(cassette) == {"schema", "fixtureVersion", "inputHash", "answers"}
    assert [set(one) for one in cassette["answers"]["judge"]] == [{"status", "body"}]


def test_a_recorded_failure_is_kept_where_the_fixture_expects_one_and_not_else(
    evalctl: Driver, endpoint: Endpoint
) -> None:
    endpoint.plan({"do": {"status": 503, "retry_after": 900}})
    expects = [{"cel": "status == 'error'", "why": "what is refused decides nothing"}]
    root = write_lab(evalctl.home, endpoint.url, fixtures={"strict": {}, "expects": {"expect": expects}})

    recorded = evalctl.run("lab", "record", "--yes", "--target", "jev")

    assert recorded.code == 1
    assert "no cassette written for gate/strict, jev: its run ended as error(provider)" in recorded.stderr
    assert not (root / "cassettes" / "gate" / "strict").exists()
    cassette = json.loads((root / "cassettes" / "gate" / "expects" / "jev.json").read_text(encoding="utf-8"))
    assert cassette["answers"]["judge"][0]["status"] == 503
    assert evalctl.run("lab", "offline", "--fixture", "expects", "--target", "jev").code == 0


def test_a_secret_is_in_no_cassette_and_in_no_result(evalctl: Driver, endpoint: Endpoint) -> None:
    key = "sk-Q7vX2mJ9pL4tR8wZ1nC5bD6fG3hK0s"
    endpoint.plan({"do": {"steps": [{"text": said()[:-1] + f', "note": "{key}"}}'}]}})
    evalctl.environment["HOUSE_KEY"] = key
    root = write_lab(evalctl.home, endpoint.url, backend={"api_key_env": "HOUSE_KEY"})

    recorded = evalctl.run("lab", "record", "--yes", "--quiet", "--target", "jev")

    assert recorded.code == 1
    assert "answers" in recorded.stderr
    assert "Nothing was written" in recorded.stderr
    assert not (root / "cassettes").exists()
    left = b"".join(file.read_bytes() for file in evalctl.home.rglob("*") if file.is_file())
    assert key.encode() not in left


def test_the_bundled_lab_is_asked_live_only_where_it_is_named(evalctl: Driver) -> None:
    done = evalctl.run("lab", "live", "--yes")
    assert done.code == 1
    assert "there is no config/lab in this directory, and the bundled lab runs live only if you name it" in done.stderr
    assert "--lab-dir" in done.stderr


@pytest.mark.parametrize(("verb", "bundled"), [("live", False), ("record", False), ("offline", True), ("check", True)])
def test_only_verbs_that_ask_nobody_take_the_bundled_lab_unnamed_and_say_so(
    evalctl: Driver, verb: str, bundled: bool
) -> None:
    told = " ".join(evalctl.run("lab", verb, "--help").stdout.replace("│", " ").split())

    assert "[default: ./config/lab" in told
    assert ("else the bundled one]" in told) is bundled


def test_the_bundled_lab_is_not_recorded_into(evalctl: Driver) -> None:
    refused = evalctl.run("lab", "record", "--yes")

    assert refused.code == 1
    assert "part of the installed package" in refused.stderr
    assert evalctl.sweep_names() == []


def test_an_interrupted_recording_is_finished_by_resume(evalctl: Driver, house: Endpoint) -> None:
    root = write_lab(evalctl.home, house.url, fixtures=["a", "b", "c"], budget={"max_calls": 4})

    stopped = evalctl.run("lab", "record", "--yes")
    done = evalctl.run("resume", "last", "--max-calls", "10")

    assert stopped.code == 1
    assert "4 cassettes written" in stopped.stderr
    assert done.code == 0, done.stderr
    assert "2 cassettes written" in done.stderr
    assert len(list((root / "cassettes").rglob("*.json"))) == 6
    assert len(house.idle()) == 6


def test_show_and_status_take_a_labs_sweep_and_verify_and_export_refuse_it(evalctl: Driver, house: Endpoint) -> None:
    write_lab(evalctl.home, house.url)
    evalctl.run("lab", "live", "--yes")

    for command in (["show", "last"], ["show", "last/1"], ["show", "last", "--runs"], ["status"], ["show", "last:jev"]):
        done = evalctl.run(*command)
        assert done.code == 0, (command, done.stderr)

    for command in (["verify", "last"], ["export", "last", "--out", "bundle.json"]):
        refused = evalctl.run(*command)
        assert refused.code == 1
        assert "ran a decision lab" in refused.stderr


SPECIALIST = """\
import json, sys, time
command = json.load(sys.stdin)["command"]
if command == "crash":
    sys.exit("out of order")
if command == "slow":
    time.sleep(600)
if command == "rubbish":
    sys.exit(print("{{{"))
print(json.dumps({"abstain": "unsure"} if command == "unsure" else {"verdict": "allow", "confidence": 0.8}))
"""


def test_specialists_are_asked_measured_recorded_and_played(evalctl: Driver, house: Endpoint) -> None:
    never = [{"cel": "status == 'ok'", "why": "it has to decide"}]
    fixtures = {name: {"command": name, "expect": never} for name in ("sure", "unsure", "crash", "slow", "rubbish")}
    gate: dict[str, Any] = {"id": "gate", "kind": "exec", "command": [sys.executable, "gate.py"], "timeout_ms": 3000}
    judge: dict[str, Any] = {
        "id": "judge",
        "kind": "model",
        "prompt": "{{ input.command }}",
        "backend": "house",
        "model": "house-1",
        "answer": VERDICT,
    }
    flow = [gate | {"fallback": "judge"}, judge]
    root = write_lab(evalctl.home, house.url, fixtures=fixtures, flow=flow)
    (root / "gate.py").write_text(SPECIALIST, encoding="utf-8")

    recorded = evalctl.run("lab", "record", "--yes", "--target", "jev")
    offline = evalctl.run("lab", "offline", "--target", "jev")

    assert recorded.code == 0, recorded.stderr
    assert "5 of 5 judged runs passed" in recorded.stdout
    assert len(house.idle()) == 4
    assert offline.code == 0, offline.stderr
    rows = evalctl.query("SELECT json_extract(detail, '$.decision.trace') FROM outcome ORDER BY attempt_id")
    outcomes = [[step["outcome"] for step in json.loads(trace)] for (trace,) in rows]
    assert sorted(outcomes[:5]) == sorted(outcomes[5:])
    assert marked(evalctl.sweep_names()) == []


def test_a_cap_on_cost_is_kept_and_what_cannot_be_counted_is_said(evalctl: Driver, house: Endpoint) -> None:
    write_lab(
        evalctl.home,
        house.url,
        fixtures=TEN,
        budget={"max_cost_usd": 0.004},
        prices={"jev-1": {"input_per_mtok": 1.0, "output_per_mtok": 2.0}},
    )

    done = evalctl.run("lab", "live", "--yes", "--json")

    assert done.code == 1
    assert "--max-cost-usd leaves no room" in done.stderr
    cost = evalctl.number("SELECT sum(cost_nusd) FROM outcome")
    assert 0 < cost <= 4_000_000
    unknown = evalctl.query("SELECT DISTINCT o.cost_nusd FROM outcome o JOIN run r ON r.id = o.run_id JOIN cell c "
                            "ON c.id = r.cell_id WHERE c.variant = 'nimble' AND o.outcome = 'pass'")  # fmt: skip
    assert unknown in ([(None,)], [])


def test_an_account_that_refuses_does_not_end_the_others(evalctl: Driver, house: Endpoint, tmp_path: Path) -> None:
    with running_endpoint(tmp_path / "refusing.jsonl", {"do": {"status": 401}}) as refusing:
        root = write_lab(evalctl.home, house.url, fixtures=TEN)
        config = yaml.safe_load((root / "config.yaml").read_text(encoding="utf-8"))
        config["backends"]["strict"] = {"kind": "openai", "base_url": refusing.url}
        (root / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        lab = yaml.safe_load((root / "lab.yaml").read_text(encoding="utf-8"))
        lab["targets"]["nimble"]["backend"] = "strict"
        (root / "lab.yaml").write_text(yaml.safe_dump(lab), encoding="utf-8")

        done = evalctl.run("lab", "live", "--yes", "--json")

        assert done.code == 1
        assert "no more requests go to" in done.stderr
        assert len(house.idle()) == 10
        assert len(refusing.idle()) <= 4
    passed = evalctl.query("SELECT c.variant, count(*) FROM current r JOIN cell c ON c.id = r.cell_id "
                           "WHERE r.outcome = 'pass' GROUP BY c.variant")  # fmt: skip
    assert passed == [("jev", 10)]


def test_a_credential_that_is_not_there_is_told_before_anything_is_asked(evalctl: Driver, house: Endpoint) -> None:
    write_lab(evalctl.home, house.url, backend={"api_key_env": "HOUSE_KEY"})

    refused = evalctl.run("lab", "live", "--yes")

    assert refused.code == 1
    assert "HOUSE_KEY is not set" in refused.stderr
    assert house.idle() == []


def test_two_processes_share_a_labs_sweep(evalctl: Driver, house: Endpoint) -> None:
    write_lab(evalctl.home, house.url, fixtures=TEN, repeat=4, budget={"max_calls": 1})
    evalctl.run("lab", "live", "--yes")

    workers = [evalctl.start("resume", "last", "--max-calls", "100", "--concurrency", "2") for _ in range(2)]
    done = [worker.finish() for worker in workers]

    assert [one.code for one in done] == [0, 0], [one.stderr for one in done]
    assert len(house.idle()) == 80
    evalctl.assert_sound()


@contextlib.contextmanager
def asked_at_a_terminal(evalctl: Driver) -> Iterator[tuple[Started, int]]:
    """`lab live` that has asked whether it may begin, and the end of the terminal to answer at."""
    here, there = pty.openpty()
    with contextlib.ExitStack() as opened:
        opened.callback(os.close, here)
        opened.callback(os.close, there)
        started = evalctl.start("lab", "live", stdin=there)
        until(lambda: started.process.poll() is not None or waits_for_a_word(started), "the question")
        assert "at most 2 calls" in started.said()
        yield started, here


def waits_for_a_word(started: Started) -> bool:
    """A signal that comes between the question and the reading of its answer would be seen only after that."""
    if "Make up to" not in started.said():
        return False
    state = Path(f"/proc/{started.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    return state == "S"


@pytest.mark.parametrize(("word", "code", "calls"), [(b"n\n", 1, 0), (b"y\n", 0, 2)])
def test_at_a_terminal_the_first_call_waits_for_a_yes(
    evalctl: Driver, house: Endpoint, word: bytes, code: int, calls: int
) -> None:
    write_lab(evalctl.home, house.url)
    with asked_at_a_terminal(evalctl) as (started, terminal):
        os.write(terminal, word)
        done = started.finish()

    assert done.code == code, done.stderr
    assert len(house.idle()) == calls


def test_ctrl_c_at_the_question_is_ctrl_c(evalctl: Driver, house: Endpoint) -> None:
    write_lab(evalctl.home, house.url)
    with asked_at_a_terminal(evalctl) as (started, _):
        started.signal(signal.SIGINT)
        done = started.finish()

    assert done.code == 130
    assert len(house.idle()) == 0


def test_a_killed_recording_loses_no_cassette(evalctl: Driver, endpoint: Endpoint) -> None:
    endpoint.plan(answering(latency_ms=60))
    root = write_lab(evalctl.home, endpoint.url, fixtures=TEN)

    started = evalctl.start("lab", "record", "--yes", "--concurrency", "2")
    until(lambda: len(evalctl.finished_positions()) >= 4, "four results")
    started.kill()
    done = evalctl.run("resume", "last")

    assert done.code == 0, done.stderr
    assert len(list((root / "cassettes").rglob("*.json"))) == 20
    assert evalctl.run("lab", "offline").code == 0


def test_where_no_report_could_be_written_nobody_is_asked(evalctl: Driver, house: Endpoint) -> None:
    write_lab(evalctl.home, house.url)
    (evalctl.home / "file").write_text("", encoding="ascii")

    refused = evalctl.run("lab", "live", "--yes", "--out", "file/below")

    assert refused.code == 1
    assert "file/below: the run directory cannot be created: Not a directory" in refused.stderr
    assert house.idle() == []


def test_sigterm_ends_running_runs_and_their_endings_are_kept(evalctl: Driver, endpoint: Endpoint) -> None:
    endpoint.plan(answering(hang=True))
    write_lab(evalctl.home, endpoint.url)

    started = evalctl.start("lab", "live", "--yes")
    until(lambda: endpoint.counts()["in_flight"] == 2, "two requests")
    started.signal(signal.SIGTERM)
    ended = started.finish()
    endpoint.plan(answering())
    done = evalctl.run("resume", "last")

    assert ended.code == 143
    assert evalctl.query("SELECT outcome, reason FROM outcome LIMIT 2") == [("error", "interrupted")] * 2
    assert done.code == 0, done.stderr


@pytest.mark.parametrize(
    ("verb", "mode", "message"),
    [
        ("live", "offline", "can run live: each sets `modes: [offline]`"),
        ("record", "live", "can run offline, which `record` is for: each sets `modes: [live]`"),
    ],
)
def test_fixtures_of_another_mode_alone_are_refused(evalctl: Driver, verb: str, mode: str, message: str) -> None:
    write_lab(evalctl.home, fixtures={"one": {"modes": [mode]}, "two": {"modes": [mode]}})

    done = evalctl.run("lab", verb, "--yes")

    assert done.code == 1
    assert f"none of the selected fixtures {message}" in done.stderr
