import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.lab.catalog import find_lab
from orchestrator.lab.formats.lab_yaml import read_lab
from orchestrator.lab.selection import select_cases
from orchestrator.lab.template_fields import find_missing_field
from orchestrator.lab.warnings import find_problems
from tests.orchestrator.lab.formats.labs import CONFIG, LAB, changed, write_lab


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_lab(tmp_path / "lab")


def doubts(root: Path, **chosen: Any) -> list[list[str]]:
    lab = read_lab(find_lab(root, None))
    found = find_problems(lab, select_cases(lab, **chosen), root)
    return [[text.replace(f"{root}/", "") for text in texts] for texts in (found.findings, found.warnings)]


def record(root: Path, name: str = "toolgate/rm-root/a.json", **changes: Any) -> None:
    fixture = read_lab(find_lab(root, None)).cases[0]
    document = {
        "schema": "evalctl.lab-cassette/1",
        "fixtureVersion": fixture.version,
        "inputHash": fixture.input_hash,
        "answers": {"judge": [{"status": 503, "body": ""}]},
        **changes,
    }
    file = root / "cassettes" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document), encoding="utf-8")


def test_nothing_is_doubtful_in_a_lab_whose_cassettes_are_played(root: Path) -> None:
    assert doubts(root) == [[], []]
    record(root)
    assert doubts(root) == [[], []]


def test_a_cassette_of_another_version_or_input_is_stale(root: Path) -> None:
    record(root, fixtureVersion=1)
    record(root, "toolgate/rm-root/b.json", inputHash="0" * 64)
    assert doubts(root)[1] == [
        "cassettes/toolgate/rm-root/a.json: stale, so it is not played: fixture version 1 recorded, now 2",
        "cassettes/toolgate/rm-root/b.json: stale, so it is not played: input changed",
    ]


def test_files_that_belong_to_no_fixture_and_target_are_orphans(root: Path) -> None:
    for name in ("toolgate/rm-root/c.json", "toolgate/gone/a.json", "old.json", "toolgate/rm-root/a/deep.json"):
        record(root, name)
    told = "belongs to no fixture and target, so it is never played"
    assert doubts(root)[1] == [
        f"cassettes/{name}: {told}"
        for name in ("old.json", "toolgate/gone/a.json", "toolgate/rm-root/c.json", "toolgate/rm-root/a/deep.json")
    ]
    assert doubts(root, cases=["rm-root"], targets=["a"]) == [[], []]


def test_an_answer_of_a_node_that_asks_nobody_is_told(root: Path) -> None:
    record(root, answers={"jugde": [{"status": 200, "body": {}}]})
    assert doubts(root)[1] == [
        (
            "cassettes/toolgate/rm-root/a.json: it answers 'jugde', which is not a node that makes calls "
            "(did you mean 'judge'?)"
        )
    ]


def test_a_cassette_that_cannot_be_read_is_a_finding(root: Path, tmp_path: Path) -> None:
    record(root, nonsense=1)
    assert doubts(root)[0] == ["cassettes/toolgate/rm-root/a.json:1:193: nonsense: unknown field 'nonsense'"]
    (root / "cassettes/toolgate/rm-root/a.json").unlink()
    (root / "cassettes/toolgate/rm-root/a.json").symlink_to("/etc/hostname")
    assert doubts(root)[0] == ["cassettes/toolgate/rm-root/a.json: leads outside through a symbolic link"]


def test_a_target_that_cannot_be_asked_a_node_is_told(tmp_path: Path) -> None:
    free = changed(
        CONFIG,
        "required: [verdict]\n          properties: { ",
        "required: [why]\n          properties: { why: { type: string }, ",
    )
    root = write_lab(
        tmp_path / "lab",
        config=free,
        lab=changed(LAB, "backend: house", "backend: typesafe"),
        fixture="id: rm-root\nversion: 1\ninput: { tool_name: rm }\nexpect: [{ cel: 'true', why: x }]",
    )
    assert [warning.partition(": ")[0] for warning in doubts(root)[1]] == [
        "target 'a' cannot answer node 'first' of 'toolgate'",
        "target 'a' cannot answer node 'judge' of 'toolgate'",
    ]
    assert doubts(root, targets=["b"]) == [[], []]


def test_a_folder_of_cassettes_that_leads_back_to_itself_is_a_finding(root: Path) -> None:
    (root / "cassettes").mkdir()
    (root / "cassettes/toolgate").symlink_to("toolgate")
    findings, _ = doubts(root)
    assert findings == [
        f"cassettes/toolgate/rm-root/{target}.json: cannot be read: Too many levels of symbolic links"
        for target in ("a", "b")
    ]


def test_a_field_of_a_template_that_no_schema_names_is_told_with_its_place(tmp_path: Path) -> None:
    mistyped = changed(CONFIG, "Tool: {{ input.tool_name }}", "Tool: {{ input.tol_name }} {{ input.tol_name }}")
    root = write_lab(tmp_path / "lab", config=mistyped)

    told = "input.tol_name: the schema has no field 'tol_name' (did you mean 'tool_name'?); it becomes null"
    assert doubts(root) == [[], [f"config.yaml:27:9: capabilities.toolgate.flow[4].prompt: {told}"]]


def test_a_field_of_an_answer_that_no_schema_names_is_told(tmp_path: Path) -> None:
    closed = changed(CONFIG, "answer: {}, decides", "answer: { properties: { sort: {} } }, decides")
    root = write_lab(tmp_path / "lab", config=closed)

    _, (warning,) = doubts(root)

    assert "flow[4].system: answers.first.kind: the schema has no field 'kind'; it becomes null" in warning


NESTED = {"properties": {"a": {"properties": {"b": {"type": "string"}}}, "c": {}}}


@pytest.mark.parametrize(
    ("schema", "path", "step"),
    [
        (NESTED, "x", "x"),
        (NESTED, "a.x", "x"),
        (NESTED, "a.b", None),
        (NESTED, "a.b.x", None),
        (NESTED, "c.x", None),
        (NESTED, "0", None),
        ({**NESTED, "additionalProperties": False}, "x", "x"),
        ({**NESTED, "additionalProperties": True}, "x", None),
        ({**NESTED, "additionalProperties": {"type": "string"}}, "x", None),
        ({**NESTED, "patternProperties": {"^x": {}}}, "x", None),
        ({**NESTED, "required": ["x"]}, "x", None),
        ({**NESTED, "anyOf": [{"properties": {"x": {}}}]}, "x", None),
        ({**NESTED, "$ref": "#/$defs/more"}, "x", None),
        ({"type": "object"}, "x", None),
        ({"properties": {"a": True}}, "a.x", None),
    ],
)
def test_only_what_plain_properties_do_not_name_is_missing(schema: dict[str, Any], path: str, step: str | None) -> None:
    found = find_missing_field(schema, path.split("."))

    assert (found[0] if found is not None else None) == step
