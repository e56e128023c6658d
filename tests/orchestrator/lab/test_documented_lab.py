"""docs/decision-labs.md says what the readers take, and its example is one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import attrs
import pytest

from orchestrator.lab.catalog import LabPlace
from orchestrator.lab.formats.daemon_yaml import BackendFile, CapabilityFile, DaemonFile
from orchestrator.lab.formats.fixture_yaml import FixtureFile
from orchestrator.lab.formats.lab_yaml import BudgetFile, LabFile, PriceFile, TargetFile, read_lab
from orchestrator.lab.hub import app as hub
from orchestrator.lab.model import Lab
from providers.decisions.cel import ASSERTION_VARIABLES
from providers.decisions.decision import Cause, Step
from providers.decisions.model import ExecNode, HttpNode, ModelNode, RuleNode

DOCS = Path(__file__).parents[3] / "docs"
EXAMPLE = DOCS / "examples" / "refund-lab"
PAGE = (DOCS / "decision-labs.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r'```yaml title="([^"]+)"\n(.*?)```', PAGE, re.DOTALL))


def section(title: str) -> str:
    """The part of the page below a heading, up to the next of its level."""
    level, _, _ = title.partition(" ")
    return PAGE.partition(f"\n{title}\n")[2].partition(f"\n{level} ")[0]


def coded(text: str) -> set[str]:
    return set(re.findall(r"`([a-z_]+)`", text))


@pytest.fixture
def lab() -> Lab:
    return read_lab(LabPlace(root=EXAMPLE, config=EXAMPLE / "config.yaml", bundled=False))


def test_the_documented_files_are_those_of_the_example() -> None:
    assert set(BLOCKS) == {"config.yaml", "lab.yaml", "fixtures/refund/defective.yaml"}
    for name, text in BLOCKS.items():
        assert text == (EXAMPLE / name).read_text(encoding="utf-8"), name


def test_the_example_is_a_lab(lab: Lab) -> None:
    assert (len(lab.cases), list(lab.targets), lab.repeat) == (5, ["large", "small"], 4)


@pytest.mark.parametrize(
    ("title", "shapes"),
    [
        ("### lab.yaml", [LabFile, TargetFile, BudgetFile, PriceFile]),
        ("### Fixtures", [FixtureFile]),
        ("### config.yaml", [DaemonFile, BackendFile, CapabilityFile, RuleNode, ModelNode, ExecNode, HttpNode]),
    ],
)
def test_every_key_of_a_file_is_in_its_table(title: str, shapes: list[Any]) -> None:
    keys = {field.name for shape in shapes for field in attrs.fields(shape)}
    assert keys - coded(section(title)) == set()


def test_every_variable_cause_and_field_of_a_step_is_told() -> None:
    assertions = section("## Assertions")
    assert set(ASSERTION_VARIABLES) | set(get_args(Cause)) <= coded(assertions)
    assert {field.name for field in attrs.fields(Step)} <= coded(assertions)


def test_every_refusal_of_the_hub_is_told() -> None:
    source = Path(hub.__file__).read_text(encoding="utf-8")
    refusals = set(re.findall(r'HubRefusal\(\s*(\d+), "(\w+)"', source)) - {("500", "bug")}
    rows = re.findall(r"^\| ([\d, ]+) \| (.*?) \|", section("## The hub"), re.MULTILINE)
    told = {(status, code) for statuses, codes in rows for status in statuses.split(", ") for code in coded(codes)}
    assert len(refusals) >= 10
    assert refusals <= told | {("404", "not_found")}
