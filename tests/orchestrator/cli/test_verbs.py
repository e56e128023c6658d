"""The table of verbs, the help that is written from it, and the exit codes of usage errors."""

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import pytest

from orchestrator.cli import app, command_group
from orchestrator.cli.verbs import SECTIONS, Group, Verb, merge_sections, usage_code_of

FOLDERS = ("orchestrator.cli.suite", "orchestrator.cli.lab", "orchestrator.cli.sweeps")
"""Where verbs are."""


def verbs_below(
    sections: Mapping[str, Mapping[str, Verb | Group]], *words: str
) -> Iterator[tuple[tuple[str, ...], Verb]]:
    """Each verb with the words that name it."""
    for name, entry in merge_sections(sections).items():
        if isinstance(entry, Verb):
            yield (*words, name), entry
        else:
            yield from verbs_below(entry.sections, *words, name)


VERBS = dict(verbs_below(SECTIONS))


def run_module(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command in a process that reports what it imports."""
    return subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "orchestrator.cli.main", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        timeout=60,
    )


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_the_one_line_help_is_the_first_sentence_of_the_verb(words: tuple[str, ...]) -> None:
    module, _, function = VERBS[words].place.partition(":")
    document = inspect.getdoc(getattr(import_module(f"orchestrator.cli.{module}"), function))
    first_line = document.partition("\n")[0] + " "
    assert VERBS[words].help == first_line[: first_line.index(". ") + 1]


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["lab", "--help"], 0), (["hub"], 1), (["rnu"], 1)])
def test_help_and_mistyped_verbs_import_no_verb(arguments: list[str], code: int, tmp_path: Path) -> None:
    done = run_module(*arguments, cwd=tmp_path)
    imported = set(re.findall(r"\| +(\S+)$", done.stderr, re.MULTILINE))
    assert done.returncode == code
    assert "orchestrator.cli.verbs" in imported
    assert {name for name in imported if name.startswith(FOLDERS)} == set()


def test_the_first_screen_shows_every_verb_and_group_but_the_hidden_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run_command(["--help"]) == 0
    shown = re.findall(r"^  ([a-z]\S*)  ", capsys.readouterr().out, re.MULTILINE)
    assert shown == [name for name in merge_sections(SECTIONS) if name != "gen-stress"]


def test_a_hidden_verb_works(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run_command(["gen-stress", "--help"]) == 0
    assert "Usage: evalctl gen-stress" in capsys.readouterr().out


def test_a_mistyped_verb_is_answered_with_the_nearest_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run_command(["lab", "ofline"]) == 1
    assert "No such command 'ofline'. Did you mean 'offline'" in capsys.readouterr().err


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_usage_errors_of_every_verb_end_with_its_code(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run_command([*words, "--no-such-option"]) == VERBS[words].usage == 1
    assert "No such option" in capsys.readouterr().err


def test_each_verb_may_have_a_usage_code_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    other = Verb("suite.suites:check", "Check.", "Exit codes: 2 usage.", usage=2)
    sections: dict[str, dict[str, Verb | Group]] = {
        "Commands": {"other": other, "group": Group("A group.", {"Commands": {"other": other}})}
    }
    assert app.run_command(["other", "--no-such-option"], sections) == 2
    assert app.run_command(["--json", "group", "other", "--no-such-option"], sections) == 2
    assert app.run_command(["group", "no-such-verb"], sections) == 1
    assert app.run_command(["other", "no-such-suite"], sections) == 2
    assert "No such command 'no-such-verb'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code"), [((), 1), (("lab",), 1), (("lab", "none"), 1), (("none",), 1), (("run", "lab"), 1)]
)
def test_a_command_line_without_a_verb_has_a_usage_code(words: tuple[str, ...], code: int) -> None:
    assert usage_code_of(words) == code


def test_a_verb_is_imported_once() -> None:
    commands = command_group.LoadedVerbs(SECTIONS)
    assert commands["list"] is commands["list"]
    assert len(commands) == len(list(commands)) == len(merge_sections(SECTIONS))
    with pytest.raises(KeyError):
        commands["none"]
