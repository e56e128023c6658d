"""The options of verbs: what each help offers, and what is said where one is missing or does not fit."""

import re
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from orchestrator.cli import app
from orchestrator.cli.command_group import omit_range
from orchestrator.cli.limits import LimitFlags
from tests.orchestrator.cli.test_verbs import VERBS

Evalctl = Callable[..., tuple[int, str, str]]
RUNS = ("run", "variants", "record")
PANELS = ["Arguments", "What to run", "Model", "Limits", "Permissions", "Output", "Options"]


@pytest.fixture
def evalctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Evalctl:
    """Runs a command in a folder of its own: code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    for variable in ("EVALCTL_STORE", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(*words: object) -> tuple[int, str, str]:
        code = app.run_command([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def offered(text: str) -> set[str]:
    """The options in a help."""
    return set(re.findall(r"^  (--[a-z-]+)", text, re.MULTILINE))


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_no_help_shows_the_bounds_of_numbers(evalctl: Evalctl, words: tuple[str, ...]) -> None:
    code, out, _ = evalctl(*words, "--help")
    assert code == 0
    assert re.findall(r"x[<>]|[<>]=?x", out) == []


@pytest.mark.parametrize("verb", RUNS)
def test_the_help_of_verbs_that_run_suites_stands_in_panels(evalctl: Evalctl, verb: str) -> None:
    _, out, _ = evalctl(verb, "--help")
    titles = re.findall(r"^([A-Z].*):$", out, re.MULTILINE)
    assert titles == PANELS
    assert out.index("--allow-write") > out.index("Permissions:") > out.index("--max-calls") > out.index("Limits:")


@pytest.mark.parametrize(
    ("verb", "left_out", "own"),
    [
        ("variants", {"--mode", "--cassette-dir", "--from"}, {"--variants"}),
        ("record", {"--mode", "--from", "--k", "--print-config"}, {"--bundled"}),
    ],
)
def test_variants_and_record_offer_what_run_does_but_for_what_they_refuse(
    evalctl: Evalctl, verb: str, left_out: set[str], own: set[str]
) -> None:
    _, of_run, _ = evalctl("run", "--help")
    _, out, _ = evalctl(verb, "--help")
    assert offered(out) == offered(of_run) - left_out | own


@pytest.mark.parametrize(("verb", "option"), [("variants", "--cassette-dir"), ("record", "--k"), ("record", "--mode")])
def test_what_a_help_leaves_out_is_no_option(evalctl: Evalctl, verb: str, option: str) -> None:
    code, _, err = evalctl(verb, "demo", option, "1")
    assert code == 1
    assert f"No such option: {option}" in err


def test_variants_say_why_they_are_not_replayed(evalctl: Evalctl) -> None:
    code, _, err = evalctl("variants", "demo", "--mode", "replay")
    assert code == 1
    assert "which no variant changes" in err


def test_variants_take_the_mode_that_they_have(evalctl: Evalctl) -> None:
    code, out, _ = evalctl("variants", "demo", "--mode", "live", "--provider", "scripted", "--print-config")
    assert code == 0
    assert "SETTING" in out


@pytest.mark.parametrize("words", [("run",), ("record",), ("variants", "--variants", "compare.json")])
def test_a_missing_suite_is_named(evalctl: Evalctl, words: tuple[str, ...]) -> None:
    code, _, err = evalctl(*words)
    assert code == 1
    assert err.endswith("Error: Missing argument SUITE.\n")


def test_a_missing_file_of_variants_is_named(evalctl: Evalctl) -> None:
    code, _, err = evalctl("variants", "demo")
    assert code == 1
    assert err.endswith("Error: Missing option --variants.\n")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--seed", "9007199254740992"), "'--seed': 9007199254740992 is not in the range"),
        (("--k", "0"), "'--k': 0 is not in the range 1<=x<=1000000."),
        (("--from", "last"), "--from: only with --mode replay"),
        (("--mode", "dry"), "--mode: expected live or replay, got 'dry'"),
        (("--mode", "replay", "--model", "m", "--base-url", "u"), "--model, --base-url: a replay calls no provider"),
        (("--input-rate", "1"), "both --input-rate and --output-rate, or neither"),
        (
            ("--input-rate", "1", "--output-rate", "1e9"),
            "--output-rate: expected USD per million tokens, 0 to 1,000,000",
        ),
        (("--sandbox", "jail"), "--sandbox: expected none or bwrap, got 'jail'"),
    ],
)
def test_flags_that_do_not_fit_are_one_message(evalctl: Evalctl, words: tuple[str, ...], problem: str) -> None:
    code, _, err = evalctl("run", "demo", *words)
    assert code == 1
    assert problem in err


def test_the_same_words_make_the_same_request() -> None:
    names = [field.name for field in attrs.fields(LimitFlags)]
    nothing = LimitFlags(**dict.fromkeys(names))
    assert nothing.given_terms() == {}
    assert attrs.evolve(nothing, rpm=2.0, max_wall=60.0, max_calls=3).given_terms() == {"rpm": 2.0, "max_wall_s": 60.0}
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        nothing.rpm = 1.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Seed.  [default: 0; -5<=x<=5]", "Seed.  [default: 0]"),
        ("Calls.  [x>=1]", "Calls."),
        ("Rate.  [x>=0.01]", "Rate."),
        ("Port.  [default: 8740; 0<=x<=65535; required]", "Port.  [default: 8740; required]"),
        ("Runs. [default: 4]  [1<=x<=1000]", "Runs. [default: 4]"),
        ("Which. [default: 4]", "Which. [default: 4]"),
        ("No notes.", "No notes."),
    ],
)
def test_bounds_are_left_out_and_other_notes_stay(text: str, shown: str) -> None:
    assert omit_range(text) == shown
