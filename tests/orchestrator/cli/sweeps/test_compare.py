"""The command: what it prints, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cli import app
from orchestrator.cli.common import Exit
from tests.orchestrator.comparison.test_sides import AFTER, BEFORE, FIRST, SECOND, add, report

OTHER = "20200103T000000Z-00000003"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"
    add(path, FIRST, BEFORE)
    add(path, SECOND, AFTER)
    return path


@pytest.fixture
def evalctl(store: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int | Exit, str, str]]:
    def called(*words: str) -> tuple[int | Exit, str, str]:
        code = app.run_command(["--store", str(store), *words])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return called


def test_it_ends_well_whatever_the_verdict(evalctl: Callable[..., tuple[int | Exit, str, str]]) -> None:
    code, out, err = evalctl("compare", FIRST, "last")
    assert (code, err) == (0, "")
    assert "regressed" in out
    assert "not comparable: errored runs: 1 on the baseline (mixed)" in out
    assert "incidents: compaction 0 -> 10" in out
    assert out.rstrip().endswith("1 errored run excluded.")
    assert "Beyond the verdict" not in out
    code, out, _ = evalctl("compare", FIRST, "last", "--detail")
    assert (code, "Beyond the verdict (these figures do not change it):" in out) == (0, True)


def test_as_json_it_is_one_object(evalctl: Callable[..., tuple[int | Exit, str, str]]) -> None:
    code, out, _ = evalctl("compare", FIRST, SECOND, "--json")
    found = json.loads(out)
    assert (code, found["schema"], len(out.splitlines())) == (0, "evalctl.comparison/1", 1)
    assert found["baseline"]["runId"] == FIRST
    assert len(found["limits"]) == 5
    assert "beyond" not in found
    assert "beyond" in json.loads(evalctl("compare", FIRST, SECOND, "--json", "--detail")[1])


def test_another_version_of_the_suite_ends_with_3_and_names_both(
    evalctl: Callable[..., tuple[int | Exit, str, str]], store: Path, tmp_path: Path
) -> None:
    add(store, OTHER, BEFORE, version="1.3.0")
    code, out, err = evalctl("compare", FIRST, OTHER)
    assert (code, out) == (3, "")
    assert "shapes 1.2.0" in err
    assert "shapes 1.3.0" in err
    assert evalctl("compare", report(store, FIRST, tmp_path / "a"), OTHER, "--json")[:2] == (3, "")


def test_a_side_that_cannot_be_read_ends_with_1(evalctl: Callable[..., tuple[int | Exit, str, str]]) -> None:
    code, out, err = evalctl("compare", FIRST, "./nowhere/report.json")
    assert (code, out) == (1, "")
    assert "no report here" in err
    assert "Traceback" not in err
    assert evalctl("compare", FIRST)[0] == 1


def test_its_help_names_the_exit_codes(evalctl: Callable[..., tuple[int | Exit, str, str]]) -> None:
    code, out, _ = evalctl("compare", "--help")
    assert code == 0
    assert "3 the sides measured different suites" in " ".join(out.split())
