"""The reader of a lab's fixtures, `fixtures/<capability>/<id>.yaml`: an input and assertions about the decision.

docs/decision-labs.md describes the format. A fixture is checked against its capability's outline, which exists even if
the configuration has findings. So an error in the configuration hides none in fixtures.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs

from orchestrator.lab.formats.flow_rules import CapabilityOutline, NodeOutline, check_expression
from orchestrator.lab.model import Expectation, LabCase, Mode
from orchestrator.yaml_values import (
    MAX_COUNT,
    check_id,
    check_not_empty,
    check_range,
    find_schema_problems,
    format_problems,
    get_typed,
    iterate_entries,
    iterate_items,
    list_known,
    new_yaml_converter,
    quote_path,
    structure_yaml,
)
from providers.decisions.cel import ASSERTION_VARIABLES
from providers.system.paths import PathEscapes, resolve_inside
from store.documents.canonical import encode_canonical
from store.documents.positions import DocumentProblem
from store.documents.structure import PathMessage, describe_value, suggest_nearest
from store.documents.yaml import YamlDocument, read_yaml
from store.errors import UsageError
from store.events import Json

if TYPE_CHECKING:
    from cattrs import Converter

FOLDER = "fixtures"
SUFFIX = ".yaml"
EXPECTED_PATH = f"expected {FOLDER}/CAPABILITY/ID{SUFFIX}"


@attrs.frozen(kw_only=True)
class FixtureFile:
    """The document of a fixture."""

    schema: Literal["evalctl.lab-fixture/1"] = "evalctl.lab-fixture/1"
    id: str
    version: int
    description: str = ""
    input: Json
    replay: Mapping[str, Json] = attrs.field(factory=dict)
    expect: tuple[Expectation, ...]
    modes: tuple[Mode, ...] = ("offline", "live")


@attrs.frozen(kw_only=True)
class CheckedFixtures:
    """All cases of a lab with the findings of their files."""

    cases: tuple[LabCase, ...]
    """The cases without findings, sorted by capability and id."""
    findings: tuple[str, ...]
    content: Mapping[str, str]
    """SHA-256 (hex) of each file by its path relative to the lab."""


def check_fixtures(root: Path, capabilities: Mapping[str, CapabilityOutline] | None) -> CheckedFixtures:
    """Check the fixtures of the lab in *root* against *capabilities*; None skips that check."""
    cases: list[LabCase] = []
    findings: list[str] = []
    content: dict[str, str] = {}
    for entry in _find_fixture_files(root, capabilities):
        if isinstance(entry, str):
            findings.append(entry)
            continue
        name = quote_path(root / entry)
        try:
            document = read_yaml(resolve_inside(root, entry.as_posix()), name=name)
        except PathEscapes as error:
            findings.append(f"{name}: {error.problem}")
        except UsageError as error:
            findings += str(error).splitlines()
        else:
            content[entry.as_posix()] = hashlib.sha256(document.raw).hexdigest()
            problems, case = _check_fixture(document, entry, capabilities)
            findings += problems
            cases += [case] if case is not None else []
    if not content and not findings:
        findings.append(f"{quote_path(root / FOLDER)}: no fixtures; {EXPECTED_PATH}")
    return CheckedFixtures(cases=tuple(cases), findings=tuple(findings), content=content)


def _find_fixture_files(root: Path, capabilities: Mapping[str, CapabilityOutline] | None) -> Iterator[Path | str]:
    """Yield the paths of fixtures relative to the lab, and a finding for any other entry; sorted by folder and name."""
    for folder in _list_directory(root / FOLDER):
        if isinstance(folder, str):
            yield folder
            continue
        name = quote_path(root / FOLDER / folder.name)
        if not _is_directory(folder):
            yield f"{name}: not in the folder of a capability; {EXPECTED_PATH}"
        elif capabilities is not None and folder.name not in capabilities:
            problem = (
                f"there is no capability {describe_value(folder.name)}{suggest_nearest(folder.name, capabilities)}"
            )
            yield f"{name}: {problem}; capabilities: {list_known(capabilities)}"
        else:
            for file in _list_directory(Path(folder.path)):
                if isinstance(file, str):
                    yield file
                elif _is_directory(file) or not file.name.endswith(SUFFIX):
                    yield f"{quote_path(root / FOLDER / folder.name / file.name)}: not a fixture; {EXPECTED_PATH}"
                else:
                    yield Path(FOLDER, folder.name, file.name)


def _list_directory(directory: Path) -> Iterator[os.DirEntry[str] | str]:
    """List a directory without hidden files such as `.gitkeep`; a missing directory is empty."""
    try:
        with os.scandir(directory) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        yield f"{quote_path(directory)}: cannot be read: {error.strerror}"
        return
    yield from (entry for entry in listed if not entry.name.startswith(".") or entry.name.endswith(SUFFIX))


def _is_directory(entry: os.DirEntry[str]) -> bool:
    """Return whether *entry* is a directory or a link to one; a link to itself is not."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _check_fixture(
    document: YamlDocument, path: Path, capabilities: Mapping[str, CapabilityOutline] | None
) -> tuple[list[str], LabCase | None]:
    structured, mismatches = structure_yaml(document, FixtureFile, _make_converter())
    capability = path.parent.name
    rules = [document.locate_problem(at, message) for at, message in _find_problems(document.value, path)]
    for index, expectation in iterate_items(document.value, "expect"):
        cel = get_typed(expectation, "cel", str)
        if cel is not None and cel.strip():
            rules += check_expression(document, ("expect", index, "cel"), cel, ASSERTION_VARIABLES)
    replay: Mapping[str, Json] = {}
    if capabilities is not None:
        rules += _check_input(document, capability, capabilities)
        replay, replay_problems = _read_replay(document, capabilities[capability])
        rules += replay_problems
    findings = format_problems(document, [*mismatches, *rules])
    if structured is None or findings:
        return findings, None
    case = LabCase(
        id=structured.id,
        capability=capability,
        version=structured.version,
        description=structured.description,
        input=structured.input,
        replay=replay,
        expect=structured.expect,
        modes=structured.modes,
        content=hashlib.sha256(document.raw).hexdigest(),
    )
    return [], case


def _find_problems(fixture: Json, path: Path) -> Iterator[PathMessage]:
    name = get_typed(fixture, "id", str)
    if name is not None:
        problems = list(check_id(name, ("id",)))
        yield from problems
        if not problems and name != path.name.removesuffix(SUFFIX):
            stem = path.name.removesuffix(SUFFIX)
            yield ("id",), f"expected {describe_value(stem)}, the name of the file, got {describe_value(name)}"
    yield from check_range(fixture, "version", (), 1, MAX_COUNT)
    if get_typed(fixture, "expect", list) == []:
        yield ("expect",), "expected at least one assertion"
    for index, expectation in iterate_items(fixture, "expect"):
        yield from check_not_empty(expectation, "cel", ("expect", index))
        yield from check_not_empty(expectation, "why", ("expect", index))
    modes = get_typed(fixture, "modes", list)
    if modes == []:
        yield ("modes",), "expected offline, live or both; without it, a fixture runs in both"
    for index, mode in enumerate(modes or []):
        if mode in (modes or [])[:index]:
            yield ("modes", index), f"{describe_value(mode)} is listed twice"


def _check_input(
    document: YamlDocument, capability: str, capabilities: Mapping[str, CapabilityOutline]
) -> Iterator[DocumentProblem]:
    if not isinstance(document.value, dict) or "input" not in document.value:
        return
    value = document.value["input"]
    try:
        encode_canonical(value)
    except UsageError as error:
        yield document.locate_problem(("input",), str(error))
        return
    schema = capabilities[capability].input
    problems = schema.find_problems(value) if schema is not None else ()
    if not problems:
        return
    fitting = [
        name
        for name, other in capabilities.items()
        if name != capability and other.input is not None and not other.input.find_problems(value)
    ]
    hint = f"; it fits {describe_value(fitting[0])}: is the fixture in the wrong folder?" if len(fitting) == 1 else ""
    yield from find_schema_problems(
        document, ("input",), value, problems, schema=f"{capability}.input_schema", hint=hint
    )


def _read_replay(
    document: YamlDocument, capability: CapabilityOutline
) -> tuple[dict[str, Json], list[DocumentProblem]]:
    """Read the answers by node, with their findings. A node's own id takes precedence over its other name."""
    answers: dict[str, Json] = {}
    findings: list[DocumentProblem] = []
    asking = {node.id: node for node in capability.nodes if node.kind != "rule"}
    rules = {node.id for node in capability.nodes if node.kind == "rule"}
    by_id = {key for key, _ in iterate_entries(document.value, "replay") if key in asking}
    for key, answer in iterate_entries(document.value, "replay"):
        other_named = [node for node in asking.values() if key == node.other and node.id not in by_id]
        nodes = [asking[key]] if key in by_id else other_named
        if not nodes:
            names = {*asking, *(node.other for node in asking.values() if node.other is not None)}
            if key in rules:
                message = f"{describe_value(key)} is a rule, which needs no answer"
            elif key in names:
                message = f"every node of {describe_value(key)} already has an answer under its own id"
            else:
                message = (
                    f"there is no node {describe_value(key)}{suggest_nearest(key, names)}; nodes that make calls: "
                    f"{list_known(asking)}"
                )
            findings.append(document.locate_problem(("replay", key), message))
        for node in nodes:
            answers[node.id] = answer
            if node.kind == "model":
                findings += _check_model_answer(document, key, answer, node)
    return answers, findings


def _check_model_answer(document: YamlDocument, key: str, given: Json, node: NodeOutline) -> Iterator[DocumentProblem]:
    at = ("replay", key)
    if not isinstance(given, dict) or "answer" not in given:
        form = "{answer, confidence}"
        got = describe_value(given) if not isinstance(given, dict) else "an object without 'answer'"
        yield document.locate_problem(at, f"expected {form}, the form of a model node's answer, got {got}")
        return
    for name in given:
        if name not in ("answer", "confidence"):
            message = f"unknown field {name!r}{suggest_nearest(name, ['answer', 'confidence'])}"
            yield document.locate_problem(
                (*at, name), f"{message}; the form of a model node's answer is {{answer, confidence}}"
            )
    confidence = given.get("confidence", 0)
    if isinstance(confidence, bool) or not isinstance(confidence, int | float):
        yield document.locate_problem(
            (*at, "confidence"), f"expected a number from 0 to 1, got {describe_value(confidence)}"
        )
    elif not 0 <= confidence <= 1:
        yield document.locate_problem((*at, "confidence"), f"expected 0 to 1, got {describe_value(confidence)}")
    answer = given["answer"]
    if answer is not None and node.answer is not None:
        problems = node.answer.find_problems(answer)
        yield from find_schema_problems(document, (*at, "answer"), answer, problems, schema=f"{node.id}.answer")


@lru_cache(maxsize=1)
def _make_converter() -> Converter:
    return new_yaml_converter()
