"""Third-party packages: what one adds, and that one that does not fit harms nobody who does not ask for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from providers.contract import SAMPLE_REQUEST, check_answer
from providers.registry import ProviderOptions, find_provider
from tests.peers.driver import Driver
from tests.plugin.conftest import InstallSource

SHORT: dict[str, Any] = {"kind": "most-lines", "id": "short", "path": "note.txt", "maxLines": 2}
PARROT = ("--provider", "parrot", "--model", "polly")


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """One task of which the untouched fixture passes, judged by a verifier of the package."""
    return write_suite(tmp_path / "tiny", SHORT)


def write_suite(root: Path, verifier: dict[str, Any]) -> Path:
    (root / "fixture").mkdir(parents=True)
    (root / "fixture" / "note.txt").write_text("one\ntwo\n", encoding="ascii")
    task = {
        "id": "say",
        "prompt": "Pieces of eight!",
        "fixture": "fixture",
        "budget": {"maxTurns": 2, "maxWallMs": 60_000},
        "verifiers": [verifier],
    }
    document = {"schemaVersion": 1, "suiteId": root.name, "suiteVersion": "1.0.0", "tasks": [task]}
    (root / "suite.json").write_text(json.dumps(document), encoding="utf-8")
    return root


def run(evalctl: Driver, suite: Path, *more: str) -> Any:
    return evalctl.run("--json", "run", suite.name, "--suite-dir", suite, "--yes", "--k", "2", *more)


def assert_refused(done: Any, *words: str) -> None:
    assert done.code == 1, (done.code, done.stderr)
    for word in words:
        assert word in done.stderr, done.stderr


# --- one that fits ----------------------------------------------------------------------------------------------


def test_its_provider_and_its_verifier_are_used_in_a_run(evalctl: Driver, suite: Path) -> None:
    done = run(evalctl, suite, *PARROT)
    assert done.code == 0, done.stderr
    assert (done.json["summary"]["passes"], done.json["summary"]["judged"]) == (2, 2)
    assert evalctl.query("SELECT outcome, calls, input_tokens, output_tokens FROM outcome") == [("pass", 1, 3, 5)] * 2
    assert evalctl.query("SELECT DISTINCT verifier, kind, verdict FROM verdict") == [("short", "most-lines", "pass")]
    assert "polly says: Pieces of eight!" in evalctl.run("show", "last/1").stdout


@pytest.mark.anyio
async def test_it_keeps_the_ports_contract(parrot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(parrot))
    provider = find_provider("parrot")(ProviderOptions(model="polly"))
    assert await check_answer(provider, SAMPLE_REQUEST) == []


def test_its_verifier_fails_what_it_should(evalctl: Driver, tmp_path: Path) -> None:
    done = run(evalctl, write_suite(tmp_path / "long", SHORT | {"maxLines": 1}), *PARROT)
    assert done.json["summary"]["passes"] == 0
    assert json.loads(evalctl.query("SELECT detail FROM verdict")[0][0]) == {"lines": 2}


def test_both_are_listed_where_a_name_is_wrong(evalctl: Driver, suite: Path, tmp_path: Path) -> None:
    assert_refused(run(evalctl, suite, "--provider", "parot"), "Did you mean 'parrot'?", "openai", "scripted")
    wrong = write_suite(tmp_path / "wrong", SHORT | {"kind": "most-line"})
    assert_refused(run(evalctl, wrong, *PARROT), "'most-line' (did you mean 'most-lines'?)", "tool-sequence")


def test_its_verifiers_fields_are_checked_like_our_own(evalctl: Driver, tmp_path: Path) -> None:
    suite = write_suite(tmp_path / "typed", SHORT | {"maxLines": "two"})
    assert_refused(evalctl.run("run", "typed", "--suite-dir", suite, "--yes", *PARROT), "maxLines", "'two'")
    assert evalctl.sweep_names() == []


# --- one that does not fit --------------------------------------------------------------------------------------

WRONG_VERSION = """
def open_provider(options): raise AssertionError("never opened")
open_provider.api_version = 99
class Kind:
    api_version = 99
"""
FAILS = {
    "wrong_version": WRONG_VERSION,
    "raises": "raise RuntimeError('boom')\n",
    "needs_what_is_not_there": "import a_module_that_nobody_has\n",
    "lacks_what_it_names": "",
    "is_no_python": "def open_provider(:\n",
}


@pytest.mark.parametrize("name", FAILS)
def test_one_that_does_not_fit_is_named_when_asked_for(
    evalctl: Driver, install: InstallSource, suite: Path, tmp_path: Path, name: str
) -> None:
    install(name, FAILS[name], providers={"unfit": "open_provider"}, verifiers={"unfit-kind": "Kind"})
    version = ("99", "1") if name == "wrong_version" else ()
    assert_refused(run(evalctl, suite, "--provider", "unfit", "--model", "m"), "'unfit'", name, *version)
    asks = write_suite(tmp_path / "asks", SHORT | {"kind": "unfit-kind"})
    assert_refused(run(evalctl, asks, *PARROT), "unfit-kind", name, *version)
    assert evalctl.sweep_names() == []


def test_those_that_do_not_fit_break_no_command_that_only_reads(
    evalctl: Driver, install: InstallSource, suite: Path, site: Path
) -> None:
    assert run(evalctl, suite, *PARROT).code == 0
    # now the same names belong to packages that do not load: what was stored is asked about all the same
    evalctl.environment["PYTHONPATH"] = str(site)
    for number, (name, source) in enumerate(FAILS.items()):
        points = {"parrot": "open_provider"} if number == 0 else {f"unfit-{number}": "open_provider"}
        kinds = {"most-lines": "Kind"} if number == 0 else {f"unfit-{number}": "Kind"}
        install(name, source, providers=points, verifiers=kinds)
        write_suite(suite.parent / "more" / f"asks-{number}", SHORT | {"kind": next(iter(kinds))})
    listed = evalctl.run("list", "--suite-dir", suite.parent / "more")
    assert listed.code == 0
    assert listed.stdout.count("BROKEN") == len(FAILS)  # the suites that ask for such a kind, and no other
    assert "smoke-coding" in listed.stdout
    for which in ("status", "show"):
        asked = evalctl.run(which, "last")
        assert asked.code == 0, asked.stderr
    shown = evalctl.run("show", "last/1")
    assert "polly says: Pieces of eight!" in shown.stdout
    assert "short" in shown.stdout
    assert evalctl.run("check", "smoke-coding").code == 0
