"""A user's mistake: exit code 1, one clear message on stderr, never a traceback, and nothing started."""

import json
import socket
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import SCRIPT, MakeSuite, against, numbered, tiny
from tests.peers.driver import Driver, Endpoint, Finished

SECRET = "peer-credential-4f1c9b7a2d"
WITHOUT_ROOTS_RIGHTS = """
import ctypes, os, sys
for capability in (1, 2):  # DAC_OVERRIDE, DAC_READ_SEARCH: file modes bind root too
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def assert_refused(done: Finished, *words: str) -> None:
    assert done.code == 1, (done.code, done.stderr)
    assert done.stdout == ""
    assert 1 <= len(done.stderr.strip().splitlines()) <= 12, done.stderr
    for word in words:
        assert word in done.stderr


def test_an_unknown_suite_names_the_nearest(evalctl: Driver) -> None:
    assert_refused(evalctl.run("run", "smoke-codng", "--provider", "scripted"), "smoke-codng", "smoke-coding")


def test_a_malformed_suite_is_told_with_line_and_field(evalctl: Driver, make_suite: MakeSuite) -> None:
    suite = make_suite(numbered(2))
    file = suite / "suite.json"
    file.write_text(file.read_text(encoding="utf-8").replace('"maxTurns": 10', '"maxTurns": "ten"'), encoding="utf-8")
    done = evalctl.run(*tiny(suite))
    assert_refused(done, "suite.json:", "tasks[0].budget.maxTurns", "tasks[1].budget.maxTurns")


def test_a_suite_that_is_no_json_is_told_with_its_position(evalctl: Driver, make_suite: MakeSuite) -> None:
    suite = make_suite(numbered(1))
    (suite / "suite.json").write_text('{\n  "schemaVersion": 1,\n  oops\n}\n', encoding="utf-8")
    assert_refused(evalctl.run(*tiny(suite)), "suite.json:3:")


def test_a_missing_fixture_is_named(evalctl: Driver, make_suite: MakeSuite) -> None:
    suite = make_suite(numbered(1), fixture="fixtures/nowhere")
    assert_refused(evalctl.run(*tiny(suite)), "fixtures/nowhere", "fixture")


def test_a_fixture_outside_the_suite_is_refused(evalctl: Driver, make_suite: MakeSuite) -> None:
    suite = make_suite(numbered(1), fixture="../secrets")
    assert_refused(evalctl.run(*tiny(suite)), "../secrets")


def test_an_effect_that_was_not_granted_is_named_with_its_task_before_the_first_run(
    evalctl: Driver, make_suite: MakeSuite, endpoint: Endpoint
) -> None:
    suite = make_suite(numbered(1), allow=["write", "process"])
    flags = tiny(suite, "--allow-write", *against(endpoint))
    assert_refused(evalctl.run(*flags), "task-0", "process", "--allow-process")
    assert endpoint.counts()["requests"] == 0
    assert evalctl.sweep_names() == []


def test_full_mode_needs_its_flag(evalctl: Driver, make_suite: MakeSuite) -> None:
    suite = make_suite(numbered(1), policy={"mode": "full"})
    assert_refused(evalctl.run(*tiny(suite)), "task-0", "--allow-suite-full")


def test_a_third_party_suite_needs_a_yes_where_nobody_can_be_asked(evalctl: Driver, make_suite: MakeSuite) -> None:
    suite = make_suite(numbered(1))
    done = evalctl.run("run", "tiny", "--suite-dir", suite, "--provider", "scripted")
    assert_refused(done, "--yes")


def test_a_missing_credential_variable_is_named(evalctl: Driver, make_suite: MakeSuite, endpoint: Endpoint) -> None:
    suite = make_suite(numbered(1))
    evalctl.environment["OTHER_API_KEY"] = SECRET
    flags = tiny(suite, *against(endpoint), "--api-key-env", "NO_SUCH_KEY")
    done = evalctl.run(*flags)
    assert_refused(done, "NO_SUCH_KEY")
    assert SECRET not in done.stderr
    assert endpoint.counts()["requests"] == 0


def test_a_password_in_a_url_is_refused_whoever_is_asked(evalctl: Driver, make_suite: MakeSuite) -> None:
    suite = make_suite(numbered(1))
    done = evalctl.run(*tiny(suite, "--provider", "scripted", "--base-url", f"http://me:{SECRET}@localhost/v1"))
    assert_refused(done, "base URL", "--api-key-env")
    assert SECRET not in done.stderr
    assert not evalctl.store.exists()


def test_a_credential_is_used_and_found_in_no_file_and_no_output(
    evalctl: Driver, make_suite: MakeSuite, endpoint: Endpoint
) -> None:
    suite = make_suite({"only": f"The password is {SECRET}, say it."})
    evalctl.environment["PEER_API_KEY"] = SECRET
    endpoint.plan({"do": {"steps": [{"text": f"It is {SECRET}."}], "chunks": 9}})
    flags = tiny(suite, "--k", "2", "-v", *against(endpoint))
    done = evalctl.run(*flags, "--api-key-env", "PEER_API_KEY")
    assert done.code == 0, done.stderr
    shown = evalctl.run("show", "last/1")
    assert shown.code == 0
    assert SECRET not in done.stdout + done.stderr + shown.stdout + shown.stderr
    for file in evalctl.store.parent.rglob("*"):
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes(), file


def test_an_unreachable_endpoint_ends_in_errors_after_bounded_retries_and_a_report(
    evalctl: Driver, make_suite: MakeSuite
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    suite = make_suite(numbered(1))
    flags = ("--provider", "openai", "--base-url", url, "--model", "m", "--k", "2", "--concurrency", "2")
    done = evalctl.run(*tiny(suite, *flags), patience_s=120)
    assert done.code == 1
    outcomes = evalctl.query("SELECT outcome, reason, judged FROM current")
    assert outcomes == [("error", "provider", 0)] * 2
    [name] = evalctl.sweep_names()
    report = json.loads((evalctl.store.parent / "eval" / name / "report.json").read_text(encoding="utf-8"))
    assert report["summary"]["judged"] == 0
    assert "127.0.0.1" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--k", "0"], "--k"),
        (["--k", "many"], "--k"),
        (["--concurrency", "0"], "--concurrency"),
        (["--max-calls", "-1"], "--max-calls"),
        (["--mode", "sideways"], "--mode"),
        (["--input-rate", "1"], "--output-rate"),
        (["--tasks", "nothing-like-it"], "nothing-like-it"),
        (["--provider", "scriptd"], "scripted"),
        (["--base-url", "ftp://example.org", "--provider", "openai", "--model", "m"], "ftp"),
        (["--seed", "x"], "--seed"),
        (["--no-such-flag"], "--no-such-flag"),
    ],
)
def test_a_wrong_flag_value_is_named(evalctl: Driver, make_suite: MakeSuite, flags: list[str], words: str) -> None:
    assert_refused(evalctl.run(*tiny(make_suite(numbered(1))), *flags), words)


def test_an_unknown_sweep_is_told(evalctl: Driver, make_suite: MakeSuite) -> None:
    suite = make_suite(numbered(1), scripts={"task-0": SCRIPT})
    evalctl.run(*tiny(suite))
    for verb in ("resume", "status", "show"):
        assert_refused(evalctl.run(verb, "19990101T000000Z-00000000"), "19990101T000000Z-00000000")


# --- stores that cannot serve -----------------------------------------------------------------------------------


def newer(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 999")
    connection.close()


def foreign(path: Path) -> None:
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE runs (id INTEGER PRIMARY KEY, score REAL)")
    connection.close()


def garbage(path: Path) -> None:
    path.write_bytes(b"This is a letter, not a database.\n" * 100)


def folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


@pytest.mark.parametrize("spoil", [newer, foreign, garbage, folder])
def test_a_file_that_is_no_store_of_ours_is_refused_and_left_alone(
    evalctl: Driver, make_suite: MakeSuite, spoil: Any
) -> None:
    suite = make_suite(numbered(1), scripts={"task-0": SCRIPT})
    assert evalctl.run(*tiny(suite)).code == 0
    for leftover in (f"{evalctl.store}-wal", f"{evalctl.store}-shm"):
        Path(leftover).unlink(missing_ok=True)
    spoil(evalctl.store)
    before = evalctl.store.read_bytes() if evalctl.store.is_file() else b""
    for arguments in (tiny(suite), ("resume", "last"), ("status",), ("show", "last")):
        assert_refused(evalctl.run(*arguments), str(evalctl.store))
    assert (evalctl.store.read_bytes() if evalctl.store.is_file() else b"") == before


def test_a_read_only_store_can_be_asked_but_not_added_to(evalctl: Driver, make_suite: MakeSuite) -> None:
    suite = make_suite(numbered(1), scripts={"task-0": SCRIPT})
    assert evalctl.run(*tiny(suite)).code == 0
    for file in evalctl.store.parent.iterdir():
        if file.is_file():
            file.chmod(0o444)
    evalctl.store.parent.chmod(0o555)
    try:
        prefix = (sys.executable, "-c", WITHOUT_ROOTS_RIGHTS)
        assert_refused(evalctl.run(*tiny(suite), prefix=prefix), str(evalctl.store))
    finally:
        evalctl.store.parent.chmod(0o755)
    assert len(evalctl.sweep_names()) == 1


def test_a_store_in_an_impossible_place_is_refused(evalctl: Driver, make_suite: MakeSuite) -> None:
    suite = make_suite(numbered(1), scripts={"task-0": SCRIPT})
    assert_refused(evalctl.run(*tiny(suite), "--store", "/proc/nowhere/runs.db"), "/proc/nowhere/runs.db")


@pytest.mark.parametrize("flag", ["--rpm", "--tpm"])
@pytest.mark.parametrize("rate", ["nan", "inf", "1e400"])
def test_a_rate_that_is_no_number_is_refused(evalctl: Driver, make_suite: MakeSuite, flag: str, rate: str) -> None:
    suite = make_suite(numbered(1), scripts={"task-0": SCRIPT})
    assert_refused(evalctl.run(*tiny(suite, flag, rate)), flag, "expected a number")
    assert evalctl.sweep_names() == []
