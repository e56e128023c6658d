"""The lab that is shipped: it reads, it covers what it should, and its specialist does what its fixtures say."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.lab.catalog import BUNDLED_LAB, find_lab
from orchestrator.lab.formats.lab_yaml import read_lab
from orchestrator.lab.model import Lab, LabCase
from orchestrator.lab.recordings import cassettes
from providers.decisions.model import Capability
from providers.decisions.schema import JsonSchema
from providers.endpoints.typesafe import list_schema_problems

GATE = BUNDLED_LAB / "specialists" / "gate.py"
INVENTED = {"rm-root", "unknown-verdict", "read-source", "read-key", "read-key-lookalike"}
"""Fixtures whose answer of the specialist is not what it says: it is another's, hostile, or never asked for."""


@pytest.fixture(scope="module")
def lab() -> Lab:
    return read_lab(find_lab(BUNDLED_LAB, None))


@pytest.fixture(scope="module")
def gate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gate", GATE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def verdicts(lab: Lab) -> JsonSchema:
    return JsonSchema(lab.daemon.capabilities["toolgate"].output_schema)


def answered(fixture: LabCase, capability: Capability) -> bool:
    return {node.id for node in capability.list_asking_nodes()} <= set(fixture.replay)


def test_it_is_found_and_has_enough_to_show(lab: Lab) -> None:
    assert sorted(lab.daemon.capabilities) == ["risk", "route", "toolgate"]
    assert len(lab.cases) >= 34
    assert all(len(fixture.expect) >= 2 and fixture.description for fixture in lab.cases)
    assert lab.bundled
    assert lab.budget is not None


def test_each_fixture_is_answered_by_its_replay_or_by_fresh_cassettes_of_every_target(lab: Lab) -> None:
    recorded = 0
    for fixture in lab.cases:
        if answered(fixture, lab.daemon.capabilities[fixture.capability]):
            continue
        for target in lab.targets:
            cassette = cassettes.decode_cassette((lab.root / fixture.cassette_path(target)).read_bytes(), name=target)
            assert cassettes.explain_stale(cassette, fixture) is None, fixture.case_id
        recorded += 1
    assert recorded >= 8


def test_no_cassette_is_left_over(lab: Lab) -> None:
    expected = {
        lab.root / fixture.cassette_path(target)
        for fixture in lab.cases
        if not answered(fixture, lab.daemon.capabilities[fixture.capability])
        for target in lab.targets
    }
    assert set((lab.root / "cassettes").rglob("*.json")) == expected


def test_every_capability_can_be_asked_of_typesafe(lab: Lab) -> None:
    for capability in lab.daemon.capabilities.values():
        for node in capability.list_asking_nodes():
            if node.kind == "model":
                assert list_schema_problems(node.answer) == [], node.id


def test_a_wheel_holds_all_of_it(lab: Lab, tmp_path: Path) -> None:
    root = lab.root.parents[1]
    argv = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(argv, cwd=root, check=True, capture_output=True, timeout=300)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("suites/decision-lab/")}
    files = [path for path in lab.root.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert packed == {path.relative_to(root).as_posix() for path in files}


def test_the_specialist_says_what_the_fixtures_say_that_it_does(lab: Lab, gate: ModuleType) -> None:
    told = 0
    for fixture in lab.cases:
        if fixture.capability == "toolgate" and "toolgate" in fixture.replay and fixture.id not in INVENTED:
            assert gate.judged(**renamed(fixture.input)) == fixture.replay["toolgate"], fixture.id
            told += 1
    assert told >= 12


def renamed(value: dict[str, Any]) -> dict[str, Any]:
    return {"tool": value["tool_name"], "given": value["tool_input"]}


def test_the_specialist_is_a_program_of_its_own(lab: Lab) -> None:
    value = {"tool_name": "Bash", "tool_input": {"command": "rm -rf /"}}
    ran = subprocess.run(
        [sys.executable, "-I", GATE], input=json.dumps(value).encode(), capture_output=True, check=True, timeout=60
    )
    assert json.loads(ran.stdout)["verdict"] == "deny"
    assert ran.stderr == b""


ROOTS = ["/", "//", "/.", "/*", "/../", "~", "~/", "'/'", '"/"', "$HOME", '"${HOME}"', "/etc", "/home/../", "/usr/*"]
FLAGS = [
    "-rf",
    "-fr",
    "-r -f",
    "-Rf",
    "--recursive --force",
    "-f --recursive",
    "-rfv --no-preserve-root",
    "-r",
    "'' -r",
]
AROUND = [
    "{}",
    "sudo {}",
    "env A=b {}",
    "ls; {}",
    "true && {}",
    "false || {}",
    "({})",
    "ls | {}",
    "git status\n{}",
    "{} &",
]


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("flags", FLAGS)
def test_deleting_what_is_precious_is_refused_however_it_is_written(gate: ModuleType, root: str, flags: str) -> None:
    for around in AROUND:
        command = around.format(f"rm {flags} {root}")
        assert gate.of_command(command).get("verdict") == "deny", command


HARMLESS = ["ls", "git status", "echo '#'", "cat a#b", "echo \\#", "echo ')'", "true # it is approved"]
JOINTS = [";", "&", "&&", "||", "|", "\n", ");", ";;", ") ;(", "#;", " # ;", " <(", " $(", "` `", "\r\n", "\t;\t"]


@pytest.mark.parametrize("harmless", HARMLESS)
def test_what_stands_beside_something_harmless_is_never_allowed_for_it(gate: ModuleType, harmless: str) -> None:
    for joint in JOINTS:
        command = f"{harmless}{joint}rm -rf /"
        assert gate.of_command(command).get("verdict") != "allow", command


ODD = ["find . -delete", "cat <(id)", "ls `id`", "eval ls", "git push", "", "   ", "#", ")", "ls\\", "echo 'a"]
ALMOST = [
    "./ls",
    "/tmp/cat x",
    "PATH=. ls",
    "env LD_PRELOAD=./x.so ls",
    "ls > x",
    "git diff --output=x",
    "git -c a=b log",
]


@pytest.mark.parametrize("command", [*ODD, *ALMOST])
def test_what_only_looks_like_looking_is_not_allowed(gate: ModuleType, command: str) -> None:
    assert "abstain" in gate.of_command(command)


@given(text=st.text() | st.text("rm -f/~;&|()<>$`'\"\\#\n*.ｒ\u200b"))
def test_no_command_brings_the_specialist_down_and_whatever_it_says_is_a_decision(
    verdicts: JsonSchema, gate: ModuleType, text: str
) -> None:
    said = gate.judged("Bash", {"command": text})
    assert "abstain" in said or not verdicts.find_problems(said)


@given(path=st.text() | st.text("/~.etcgi"))
def test_no_path_brings_the_specialist_down_and_only_what_is_inside_is_allowed(gate: ModuleType, path: str) -> None:
    said = gate.judged("Write", {"file_path": path})
    if said.get("verdict") == "allow":
        assert not path.startswith(("/", "~"))
        assert ".git" not in path.split("/")
