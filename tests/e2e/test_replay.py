"""Recordings from the command line: made, played, left, verified again, and what CI makes of them."""

from __future__ import annotations

import json
import re
import signal
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import MakeSuite, against, script, tiny, write_suite
from tests.peers.driver import ROOT, Driver, Endpoint, Finished, through, until
from tests.peers.without_network import NOT_ALLOWED

GRANTED = ("--allow-write", "--allow-process")
BUNDLED = ROOT / "suites"


def answer(text: str = "Done.", **more: Any) -> dict[str, Any]:
    return {"text": text, "usage": {"input": 12, "output": 6}} | more


def bash(command: str, call_id: str = "c1") -> dict[str, Any]:
    return answer("", toolCalls=[{"id": call_id, "name": "bash", "arguments": {"command": command}}])


def replay(evalctl: Driver, suite: Path, *more: str) -> Finished:
    return evalctl.run("run", "tiny", "--suite-dir", suite, "--yes", "--mode", "replay", *more)


def record(evalctl: Driver, suite: Path, *more: str) -> Finished:
    return evalctl.run("record", "tiny", "--suite-dir", suite, "--yes", "--provider", "scripted", *more)


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*.jsonl"))}


def rows(finished: Finished) -> list[tuple[Any, ...]]:
    records = [json.loads(line) for line in finished.stdout.splitlines()][:-1]
    return sorted(
        (one["taskId"], one["repetition"], one["status"], one.get("reason"), one["measured"]["calls"],
         json.dumps([(verdict["id"], verdict["verdict"]) for verdict in one["verifiers"]]))
        for one in records
    )  # fmt: skip


def test_two_recordings_of_the_bundled_suites_are_the_committed_bytes(evalctl: Driver, tmp_path: Path) -> None:
    for name in ("a", "b"):
        done = evalctl.run("record", "--bundled", "--out", tmp_path / name)
        assert done.code == 0, done.stderr
    recorded = files(tmp_path / "a")
    assert recorded == files(tmp_path / "b")
    committed = {
        f"{suite.parent.name}/{path.name}": path.read_bytes()
        for suite in BUNDLED.glob("*/cassettes")
        for path in suite.glob("*.jsonl")
    }
    assert len(committed) == 10
    assert recorded == committed
    assert not evalctl.store.exists()


def test_bundled_tasks_are_recorded_by_name_and_a_wrong_name_is_told(evalctl: Driver, tmp_path: Path) -> None:
    done = evalctl.run("record", "--bundled", "--tasks", "tool-sequences/edit-twice", "--out", tmp_path / "a")
    assert list(files(tmp_path / "a")) == ["tool-sequences/edit-twice.jsonl"], done.stderr
    wrong = evalctl.run("record", "--bundled", "--tasks", "tool-sequences/edit-twic", "--out", tmp_path / "a")
    assert wrong.code == 1
    assert "tool-sequences/edit-twice" in wrong.stderr


def test_ci_replays_everything_and_passes_without_a_network(evalctl: Driver, tmp_path: Path) -> None:
    done = evalctl.run("ci", "--out", tmp_path / "out", prefix=through("without_network"))
    assert done.code == 0, done.stdout + done.stderr
    assert "tool-sequences: 6 of 6 replayed and passed, 0 diverged" in done.stdout
    assert "long-context: skipped, it has no cassettes" in done.stdout
    assert (tmp_path / "out" / "tool-sequences" / "report.json").is_file()
    report = (tmp_path / "out" / "smoke-coding" / "report.md").read_text(encoding="utf-8")
    assert "measures the harness, not the model" in report


def test_the_network_is_really_watched(evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite) -> None:
    suite = make_suite({"a": "Say that it is done."})
    done = evalctl.run(*tiny(suite, *against(endpoint)), prefix=through("without_network"))
    assert done.code == NOT_ALLOWED


def test_ci_names_a_tool_s_description_that_was_changed(evalctl: Driver) -> None:
    changed = evalctl.run("ci", prefix=through("changed_tool", "edit_file"))
    assert changed.code == 2, changed.stdout + changed.stderr
    assert re.search(r'tools\[edit_file\]\.description\n  recorded: ".*\n  asked:    "Really: ', changed.stdout)


def test_a_divergence_names_task_call_and_field_writes_the_report_and_exits_2(
    evalctl: Driver, make_suite: MakeSuite
) -> None:
    suite = make_suite(
        {"a": "Count.", "b": "Count."}, allow=["process"],
        scripts={name: script(bash("cat note.txt"), answer()) for name in "ab"},
    )  # fmt: skip
    assert record(evalctl, suite, "--allow-process").code == 0
    (suite / "fixtures" / "note" / "note.txt").write_text("hello again\n", encoding="ascii")
    done = replay(evalctl, suite, "--allow-process")
    assert done.code == 2, done.stdout + done.stderr
    shape = r"task a, call 2: messages\[2\]\.tool\.result\n  recorded: .*\n  asked:    .*hello again"
    assert re.search(shape, done.stdout)
    assert re.search(shape, evalctl.run("show", "last/1").stdout)
    report = evalctl.store.parent / "eval" / evalctl.sweep_names()[-1]
    first = json.loads((report / "runs.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert first["error"]["cause"] == "replay_divergence"
    assert first["divergence"]["field"] == "messages[2].tool.result"
    again = evalctl.run("resume", "last", "--errors")
    assert again.code == 2
    assert evalctl.number("SELECT count(*) FROM outcome WHERE reason = 'replay_divergence'") == 2


def test_a_replay_is_not_resumed_with_other_cassettes(evalctl: Driver, make_suite: MakeSuite) -> None:
    suite = make_suite({"a": "Say.", "b": "Say."}, scripts={name: script(answer()) for name in "ab"})
    assert record(evalctl, suite).code == 0
    assert replay(evalctl, suite).code == 0
    assert evalctl.run("resume", "last").code == 0
    (suite / "scripts" / "b.json").write_text(json.dumps(script(answer("Otherwise."))), encoding="ascii")
    name = evalctl.sweep_names()[-1]
    assert record(evalctl, suite).code == 0
    done = evalctl.run("resume", name)
    assert done.code == 1
    assert "the cassettes have changed since the sweep was planned: b" in done.stderr


def test_what_an_endpoint_said_is_replayed_without_it(
    evalctl: Driver, endpoint: Endpoint, make_suite: MakeSuite
) -> None:
    suite = make_suite(dict.fromkeys("abcd", "Say that it is done."))
    flags = [*against(endpoint), "--concurrency", "8"]
    done = evalctl.run("record", "tiny", "--suite-dir", suite, "--yes", *flags)
    assert done.code == 0, done.stderr
    assert len(files(suite / "cassettes")) == 4
    asked = endpoint.counts()
    alone = evalctl.run(
        "run", "tiny", "--suite-dir", suite, "--yes", "--mode", "replay", "--k", "2",
        prefix=through("without_network"),
    )  # fmt: skip
    assert alone.code == 0, alone.stdout + alone.stderr
    assert "8/8" in alone.stdout
    assert "model peer-1" in alone.stdout
    assert endpoint.counts() == asked


@pytest.mark.parametrize("command", ["echo $EVALCTL_ATTEMPT", "pwd", "echo $HOME; mktemp -u"])
def test_what_is_a_run_s_own_does_not_diverge(evalctl: Driver, make_suite: MakeSuite, command: str) -> None:
    rule = [{"pattern": r"tmp\.\w+", "replace": "<NAME>"}]
    suite = make_suite(
        {"a": "Look."}, allow=["process"], scripts={"a": script(bash(command), answer())}, replayNormalize=rule
    )
    assert record(evalctl, suite, "--allow-process").code == 0
    done = replay(evalctl, suite, "--allow-process")
    assert done.code == 0, done.stdout + done.stderr


def test_concurrency_does_not_change_the_rows(evalctl: Driver) -> None:
    one, eight = (
        evalctl.run(
            "--json", "run", "tool-sequences", "--mode", "replay", *GRANTED, "--k", "2", "--concurrency", number
        )
        for number in ("1", "8")
    )
    assert (one.code, eight.code) == (0, 0)
    assert rows(one) == rows(eight)
    assert len(rows(one)) == 12


def test_a_task_without_a_cassette_is_skipped_and_nothing_but_such_tasks_fails(
    evalctl: Driver, make_suite: MakeSuite
) -> None:
    suite = make_suite({"a": "Say.", "b": "Say."}, scripts={"a": script(answer()), "b": script(answer())})
    nothing = replay(evalctl, suite)
    assert nothing.code == 1
    assert "2 skipped(no_cassette)" in nothing.stdout
    assert record(evalctl, suite, "--tasks", "a").code == 0
    partly = replay(evalctl, suite)
    assert partly.code == 0, partly.stdout
    assert "1 skipped(no_cassette)" in partly.stdout
    assert evalctl.number("SELECT count(*) FROM run JOIN sweep ON sweep.id = sweep_id WHERE mode = 'replay'") == 4


def test_ci_into_a_place_that_is_no_directory_is_refused(evalctl: Driver, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for place in (file, file / "below"):
        done = evalctl.run("ci", "--out", str(place))
        assert (done.code, done.stdout) == (1, "")
        assert str(place) in done.stderr
        assert "Traceback" not in done.stderr
    assert file.read_text() == "mine"


def test_ci_over_a_suite_of_one_s_own(evalctl: Driver, make_suite: MakeSuite, tmp_path: Path) -> None:
    suite = make_suite({"a": "Say."}, scripts={"a": script(answer())})
    empty = evalctl.run("ci", "--suite-dir", suite)
    assert empty.code == 1
    assert "tiny: skipped, it has no cassettes" in empty.stdout
    assert "nothing was replayed" in empty.stderr
    assert "not a bundled suite" in empty.stderr
    assert record(evalctl, suite, "--cassette-dir", str(tmp_path / "elsewhere")).code == 0
    done = evalctl.run("ci", "--suite-dir", suite, "--cassette-dir", tmp_path / "elsewhere")
    assert done.code == 0, done.stdout + done.stderr
    (suite / "fixtures" / "note" / "note.txt").write_text("goodbye\n", encoding="ascii")
    failing = evalctl.run("ci", "--suite-dir", suite, "--cassette-dir", tmp_path / "elsewhere")
    assert failing.code == 1
    assert "tiny/a was replayed and did not pass" in failing.stdout
    many = evalctl.run("ci", "--cassette-dir", tmp_path / "elsewhere")
    assert many.code == 1
    assert "needs exactly one suite" in many.stderr


def test_a_signal_ends_ci_and_not_only_the_suite_that_is_replayed(evalctl: Driver, tmp_path: Path) -> None:
    begun, gate = tmp_path / "begun", tmp_path / "gate"
    waiting = {"kind": "command", "id": "waits", "timeoutMs": 60_000}
    waiting["command"] = ["sh", "-c", f"touch {begun}; while test -e {gate}; do sleep 0.05; done"]
    for name in ("first", "second"):
        suite = write_suite(
            tmp_path / "suites" / name, {"a": "Say."}, scripts={"a": script(answer())}, verifiers=[waiting]
        )
        file = suite / "suite.json"
        file.write_text(file.read_text(encoding="utf-8").replace('"tiny"', f'"{name}"'), encoding="utf-8")
        assert evalctl.run("record", name, "--suite-dir", suite, "--yes", "--provider", "scripted").code == 0
    begun.unlink()
    gate.touch()
    started = evalctl.start("ci", "--suite-dir", tmp_path / "suites")
    until(begun.exists, "the first suite's verifier")
    started.process.send_signal(signal.SIGTERM)
    done = started.finish()
    assert done.code == 143
    assert "first: 0 of" in done.stdout
    assert "second" not in done.stdout


def test_another_configuration_warns_and_a_damaged_cassette_is_refused_by_line(
    evalctl: Driver, make_suite: MakeSuite
) -> None:
    suite = make_suite({"a": "Say."}, scripts={"a": script(answer())})
    assert record(evalctl, suite).code == 0
    (evalctl.home / "evalctl.json").write_text('{"schemaVersion": 1, "reasoningEffort": "high"}', encoding="ascii")
    other = replay(evalctl, suite)
    assert other.code == 2
    assert "a: recorded with another configuration" in other.stderr
    assert "reasoningEffort" in other.stdout
    file = suite / "cassettes" / "a.jsonl"
    file.write_bytes(file.read_bytes().replace(b"Done.", b"Gone."))
    damaged = replay(evalctl, suite)
    assert damaged.code == 1
    assert f"{file}:2: check: wrong checksum" in damaged.stderr


def test_a_secret_is_not_recorded_wherever_it_stands(evalctl: Driver, make_suite: MakeSuite) -> None:
    planted, known = "correct-horse-battery-staple", "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zB9dF1hJ3lN5"
    evalctl.environment["PLANTED_API_KEY"] = planted
    encoded = b64encode(f"token={known}\n".encode()).decode()
    scripts = {
        "good": script(answer()),
        "prompt": script(answer()),
        "whole": script(answer(f"It is {planted}.")),
        "pieces": script(answer(f"It is {planted}.", chunks=9)),
        "base64": script(answer(f"It is {b64encode(planted.encode()).decode()}.")),
        "look": script(answer(f"It is {known}.", chunks=9)),
        "encoded": script(answer(f"It is {encoded}.")),
        "argument": script(bash(f"true {planted}"), answer()),
        "output": script(bash(f"printf %s%s {planted[:9]} {planted[9:]}"), answer()),
    }
    prompts = dict.fromkeys(scripts, "Say.") | {"prompt": f"Say {planted}."}
    suite = make_suite(prompts, scripts=scripts, allow=["process"])
    done = record(evalctl, suite, "--allow-process")
    assert done.code == 1
    for field in (
        "prompt.jsonl: calls[0].request.messages[0].user.text: holds a secret (PLANTED_API_KEY)",
        "whole.jsonl: calls[0].events[1].text: holds a secret (PLANTED_API_KEY)",
        "pieces.jsonl: calls[0].events: holds a secret (PLANTED_API_KEY)",
        "base64.jsonl: calls[0].events[1].text: holds a secret (PLANTED_API_KEY)",
        "look.jsonl: calls[0].events: holds a secret (github-token)",
        "encoded.jsonl: calls[0].events[1].text: holds a secret (github-token)",
        "argument.jsonl: calls[0].answer.calls[0].arguments: holds a secret (PLANTED_API_KEY)",
        "output.jsonl: calls[1].request.messages[1].tool.result: holds a secret (PLANTED_API_KEY)",
    ):
        assert field in done.stderr
    assert "good.jsonl" not in done.stderr
    assert not [text for text in (planted, known, encoded) if text in done.stderr + done.stdout]
    assert not (suite / "cassettes").exists()


def test_no_more_is_recorded_than_a_cassette_and_a_directory_may_hold(evalctl: Driver, make_suite: MakeSuite) -> None:
    names = [f"t{number}" for number in range(9)]
    scripts = {name: script(answer(f"{name} " * 80_000)) for name in names}
    suite = make_suite(
        dict.fromkeys([*names, "long"], "Say."), scripts=scripts | {"long": script(answer("x " * 140_000))}
    )
    cassettes = suite / "cassettes"
    refused = record(evalctl, suite, "--tasks", "t0,long")
    assert refused.code == 1
    assert re.search(r"long\.jsonl: 28\d,\d{3} bytes; a cassette has at most 262,144", refused.stderr)
    assert not cassettes.exists()
    refused = record(evalctl, suite, "--tasks", ",".join(names))
    assert refused.code == 1
    too_full = rf"{cassettes}: 2,\d{{3}},\d{{3}} bytes in all; a directory of cassettes has at most 2,097,152"
    assert re.search(too_full, refused.stderr)
    assert not cassettes.exists()
    assert record(evalctl, suite, "--tasks", ",".join(names[:8])).code == 0
    before = files(cassettes)
    refused = record(evalctl, suite, "--tasks", "t8")
    assert refused.code == 1
    assert re.search(too_full, refused.stderr)
    assert files(cassettes) == before
    assert len(before) == 8


def test_a_stored_sweep_is_replayed_with_all_its_repetitions(evalctl: Driver, make_suite: MakeSuite) -> None:
    ends = [answer("", finish="length"), answer(reasoning="hm", chunks=3), answer("Really done.")]
    plays = [{"answers": [bash(f"pwd; echo {n}"), end]} for n, end in enumerate(ends)]
    suite = make_suite({"a": "Look."}, allow=["process"], scripts={"a": {"format": "evalctl.script/1", "plays": plays}})
    live = evalctl.run(*tiny(suite, "--k", "3", "--allow-process"))
    assert live.code == 0, live.stdout
    [name] = evalctl.sweep_names()
    done = replay(evalctl, suite, "--from", name, "--allow-process")
    assert done.code == 0, done.stdout + done.stderr
    for told in (live, done):
        assert "2/3" in told.stdout
        assert "1 fail(truncated_output)" in told.stdout
    (suite / "fixtures" / "note" / "note.txt").write_text("hello\nyou\n", encoding="ascii")
    assert replay(evalctl, suite, "--from", name, "--allow-process", "--k", "4").code == 1


def test_a_stored_run_with_a_redaction_mark_is_skipped(evalctl: Driver, make_suite: MakeSuite) -> None:
    evalctl.environment["PLANTED_API_KEY"] = "correct-horse-battery-staple"
    suite = make_suite({"a": "Say."}, scripts={"a": script(answer("correct-horse-battery-staple"))})
    assert evalctl.run(*tiny(suite, "--k", "1")).code == 0
    done = replay(evalctl, suite, "--from", "last")
    assert done.code == 1
    assert "1 skipped(no_cassette)" in done.stdout
    message = evalctl.query("SELECT detail FROM outcome WHERE reason = 'no_cassette'")[0][0]
    assert "contains the mark of a removed secret" in message


def test_verify_adds_what_verifiers_say_now_and_changes_nothing(evalctl: Driver, make_suite: MakeSuite) -> None:
    write = answer("", toolCalls=[
        {"id": "w", "name": "write_file",
         "arguments": {"path": "new/said.txt", "content": "hi\n", "expectedHash": None}},
    ])  # fmt: skip
    verifiers = [
        {"kind": "file-contains", "id": "said", "path": "new/said.txt", "text": "ho"},
        {"kind": "tool-sequence", "id": "one", "rule": {"type": "max-calls", "tool": "write_file", "max": 1}},
    ]
    suite = make_suite({"a": "Write."}, allow=["write"], scripts={"a": script(write, answer())}, verifiers=verifiers)
    live = evalctl.run(*tiny(suite, "--k", "2", "--allow-write"))
    assert live.code == 0, live.stderr
    before = evalctl.query("SELECT * FROM result") + evalctl.query("SELECT * FROM verdict")
    same = evalctl.run("verify", "last")
    assert "2 runs verified again, 0 with a different outcome" in same.stdout, same.stderr
    file = suite / "suite.json"
    file.write_text(file.read_text(encoding="utf-8").replace('"ho"', '"hi"'), encoding="utf-8")
    done = evalctl.run("--json", "verify", "last")
    assert done.code == 0, done.stderr
    found = json.loads(done.stdout)
    assert [(one["before"], one["now"]) for one in found["changed"]] == [("fail", "pass")] * 2
    now = evalctl.query("SELECT * FROM result") + evalctl.query("SELECT * FROM verdict")
    assert set(before) <= set(now)
    assert evalctl.query("SELECT basis, outcome FROM current") == [("verify", "pass")] * 2
    assert "2/2" in evalctl.run("show", "last").stdout
    evalctl.assert_sound()


def test_verify_leaves_runs_whose_fixture_has_changed(evalctl: Driver, make_suite: MakeSuite) -> None:
    suite = make_suite({"a": "Say."}, scripts={"a": script(answer())})
    assert evalctl.run(*tiny(suite, "--k", "1")).code == 0
    (suite / "fixtures" / "note" / "note.txt").write_text("goodbye\n", encoding="ascii")
    done = evalctl.run("verify", "last")
    assert "0 runs verified again" in done.stdout
    assert "1 left as they are: the fixture has changed since" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["run", "demo", "--mode", "replayed"], "expected live or replay"),
        (["run", "demo", "--from", "last"], "only with --mode replay"),
        (["run", "demo", "--mode", "replay", "--model", "m"], "a replay calls no provider"),
        (["record", "--bundled", "demo"], "leave out SUITE"),
        (["record", "demo", "--out", "x"], "only with --bundled"),
        (["record", "--bundled", "--seed", "3"], "leave out --seed"),
    ],
)
def test_what_does_not_go_together_is_refused(evalctl: Driver, arguments: list[str], word: str) -> None:
    done = evalctl.run(*arguments)
    assert done.code == 1
    assert word in done.stderr
