"""Tests of hints as the command line prints them."""

import sys

import pytest

from orchestrator.cli.common import COMMON
from orchestrator.cli.hints import print_lines, spell_line
from orchestrator.reports.hints import Hint


@pytest.fixture(autouse=True)
def _called_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pytest"])
    monkeypatch.setattr(COMMON, "store", None)


def test_a_line_is_spelled_as_it_is_and_a_hint_with_the_whole_command(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spell_line("evalctl", {}) == "evalctl"
    assert spell_line(Hint("show S/3"), {}) == "next: evalctl show S/3"
    monkeypatch.setattr(COMMON, "store", "a store")
    hint = Hint("resume S", "runs the 2 that are left", lead="2 runs are left:")
    assert spell_line(hint, {}) == "2 runs are left: evalctl resume S --store 'a store'   runs the 2 that are left"


def test_a_hint_is_printed_on_one_line_that_can_be_copied(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines([], {})
    assert capsys.readouterr().out == ""
    print_lines(["a", Hint("resume S", "r" * 300)], {})
    assert capsys.readouterr().out == f"a\nnext: evalctl resume S   {'r' * 300}\n"
