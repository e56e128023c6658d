import copy
import hashlib
import json
import os
import time  # noqa: TID251 - a test may look at a clock
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from orchestrator.suite.formats.patterns import find_pattern_fault
from orchestrator.suite.formats.suite_json import read_suite
from orchestrator.suite.model import Normalization, Suite, TaskBudget, TaskPolicy
from store.errors import UsageError
from verifiers.command import Command
from verifiers.files import FileAbsent, FileContains, FileEquals
from verifiers.registry import list_verifier_kinds
from verifiers.tool_sequence import CalledBefore, MaxCalls, NeverCalled, NoRepeatFailure, ToolSequence
from verifiers.tree_diff import TreeDiffWithin

UNKNOWN_KIND = f"unknown kind 'comand' (did you mean 'command'?); expected one of {', '.join(list_verifier_kinds())}"
CHECK = {"kind": "command", "id": "check", "command": ["python3", "check.py"]}


def task(**changed: Any) -> dict[str, Any]:
    plain = {
        "id": "fix-add",
        "prompt": "Fix it.",
        "fixture": "fixtures/fix-add",
        "budget": {"maxTurns": 30, "maxWallMs": 120000},
        "verifiers": [CHECK],
    }
    return {key: value for key, value in {**plain, **changed}.items() if value is not ...}


def suite(*tasks: dict[str, Any], **changed: Any) -> dict[str, Any]:
    plain = {"schemaVersion": 1, "suiteId": "my-suite", "suiteVersion": "1.0.0", "tasks": list(tasks) or [task()]}
    return {key: value for key, value in {**plain, **changed}.items() if value is not ...}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    fixture = tmp_path / "my-suite" / "fixtures" / "fix-add"
    (fixture / "src").mkdir(parents=True)
    (fixture / "src" / "math.py").write_text("def add(a, b): return a - b\n")
    (fixture / "check.py").write_text("raise SystemExit(1)\n")
    return tmp_path / "my-suite"


def read(directory: Path, document: Any) -> Suite:
    text = document if isinstance(document, str) else json.dumps(document)
    (directory / "suite.json").write_text(text)
    return read_suite(directory, bundled=False)


def findings(directory: Path, document: dict[str, Any]) -> list[str]:
    """What is told, without the file's name and place."""
    with pytest.raises(UsageError) as caught:
        read(directory, document)
    lines = str(caught.value).splitlines()
    prefix = f"{directory / 'suite.json'}:"
    assert all(line.startswith(prefix) for line in lines)
    return [line.removeprefix(prefix).split(": ", 1)[1] for line in lines]


def test_every_documented_field_is_read(directory: Path) -> None:
    read_in = read(
        directory,
        suite(
            task(
                budget={"maxTurns": 30, "maxTokens": 200000, "maxWallMs": 120000, "maxToolCalls": 40},
                policy={"mode": "ask", "allow": ["write", "process", "external", "analysis"], "readOnly": True},
                verifiers=[
                    {**CHECK, "timeoutMs": 600000, "expectExit": 3, "expectStdoutIncludes": ["a", "b"]},
                    {**CHECK, "id": "one-text", "expectStdoutIncludes": "a"},
                    {"kind": "file-equals", "id": "eq", "path": "a", "sha256": "0" * 64},
                    {"kind": "file-contains", "id": "has", "path": "a", "text": "b"},
                    {"kind": "file-absent", "id": "gone", "path": "a/b"},
                    {"kind": "tree-diff-within", "id": "scope", "allowed": ["src/", "a.py"]},
                    {
                        "kind": "tool-sequence",
                        "id": "t1",
                        "rule": {"type": "before", "first": "read_file", "then": "edit_file"},
                    },
                    {"kind": "tool-sequence", "id": "t2", "rule": {"type": "never", "tool": "bash"}},
                    {"kind": "tool-sequence", "id": "t3", "rule": {"type": "max-calls", "tool": "bash", "max": 3}},
                    {"kind": "tool-sequence", "id": "t4", "rule": {"type": "no-repeat-failure", "tool": "bash"}},
                ],
                tags=["coding"],
                agent="reviewer",
                fixtureGit=True,
                replayNormalize=[{"pattern": r"\d{4}-\d{2}(?:\.\d+)?Z", "replace": "<TIMESTAMP>"}],
            ),
            description="Small coding tasks.",
        ),
    )
    (only,) = read_in.tasks
    assert (read_in.suite_id, read_in.suite_version, read_in.description) == (
        "my-suite",
        "1.0.0",
        "Small coding tasks.",
    )
    assert only.budget == TaskBudget(max_turns=30, max_tokens=200000, max_wall_ms=120000, max_tool_calls=40)
    assert only.policy == TaskPolicy(mode="ask", allow=("write", "process", "external", "analysis"), read_only=True)
    assert only.replay_normalize == (Normalization(pattern=r"\d{4}-\d{2}(?:\.\d+)?Z", replace="<TIMESTAMP>"),)
    assert (only.tags, only.agent, only.fixture_git) == (("coding",), "reviewer", True)
    command = ("python3", "check.py")
    assert only.verifiers == (
        Command(id="check", command=command, timeout_ms=600000, expect_exit=3, expect_stdout_includes=("a", "b")),
        Command(id="one-text", command=command, expect_stdout_includes=("a",)),
        FileEquals(id="eq", path="a", sha256="0" * 64),
        FileContains(id="has", path="a", text="b"),
        FileAbsent(id="gone", path="a/b"),
        TreeDiffWithin(id="scope", allowed=("src/", "a.py")),
        ToolSequence(id="t1", rule=CalledBefore(first="read_file", then="edit_file")),
        ToolSequence(id="t2", rule=NeverCalled(tool="bash")),
        ToolSequence(id="t3", rule=MaxCalls(tool="bash", max=3)),
        ToolSequence(id="t4", rule=NoRepeatFailure(tool="bash")),
    )


def test_what_may_be_left_out_has_its_documented_default(directory: Path) -> None:
    (only,) = read(directory, suite()).tasks
    assert only.policy == TaskPolicy(mode="auto", allow=(), read_only=False)
    assert only.verifiers == (
        Command(
            id="check", command=("python3", "check.py"), timeout_ms=30000, expect_exit=0, expect_stdout_includes=()
        ),
    )
    assert (only.tags, only.agent, only.fixture_git, only.replay_normalize) == ((), None, False, ())


def test_all_findings_are_told_at_once_with_file_line_and_column(directory: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read(
            directory,
            """{
  "schemaVersion": 1,
  "suiteId": "my-suite",
  "suiteVersion": 2,
  "descripton": "typo",
  "tasks": [
    {"id": "ok", "prompt": "p", "fixture": "fixtures/fix-add", "budget": {"maxTurns": 3, "maxWallMs": 1},
     "verifiers": [{"kind": "command", "id": "c", "command": ["true"]}]},
    {"id": "t2", "prompt": "p", "fixture": "nowhere", "budget": {"maxTurns": "30", "maxWallMs": 0},
     "policy": {"mode": "yolo"},
     "verifiers": [{"kind": "comand", "id": "x"}, "nope"]}
  ]
}""",
        )
    name = directory / "suite.json"
    assert str(caught.value).splitlines() == [
        f"{name}:4:3: suiteVersion: expected a string, got 2",
        f"{name}:5:3: descripton: unknown field 'descripton' (did you mean 'description'?)",
        f"{name}:9:33: tasks[1].fixture: no such directory: 'nowhere' (task 't2')",
        f"{name}:9:66: tasks[1].budget.maxTurns: expected an integer, got '30' (task 't2')",
        f"{name}:9:84: tasks[1].budget.maxWallMs: expected at least 1, got 0 (task 't2')",
        f"{name}:10:17: tasks[1].policy.mode: expected one of 'ask', 'auto', 'full', got 'yolo' (task 't2')",
        f"{name}:11:21: tasks[1].verifiers[0].kind: {UNKNOWN_KIND} (task 't2')",
        f"{name}:11:51: tasks[1].verifiers[1]: expected an object, got 'nope' (task 't2')",
    ]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"schemaVersion": 2}, "schemaVersion: expected 1, got 2"),
        ({"schemaVersion": True}, "schemaVersion: expected 1, got true"),
        ({"schemaVersion": ...}, "(document): missing required field 'schemaVersion'"),
        ({"suiteVersion": "1.0"}, "suiteVersion: expected a semantic version such as 1.0.0, got '1.0'"),
        ({"suiteVersion": "01.0.0"}, "suiteVersion: expected a semantic version such as 1.0.0, got '01.0.0'"),
        ({"tasks": []}, "tasks: expected at least one task"),
        ({"tasks": {}}, "tasks: expected an array, got an object"),
        ({"description": None}, "description: expected a string, got null"),
    ],
)
def test_a_suite_says_what_it_must(directory: Path, changed: dict[str, Any], told: str) -> None:
    assert findings(directory, suite(**changed)) == [told]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"prompt": " "}, "prompt: expected some text, got ' '"),
        ({"fixture": ...}, "missing required field 'fixture'"),
        ({"fixture": "/etc"}, "fixture: '/etc' is absolute; it must be relative"),
        ({"fixture": "fixtures/../.."}, "fixture: 'fixtures/../..' must not hold .."),
        ({"fixture": ""}, "fixture: '' is empty"),
        ({"fixture": "fixtures\\fix-add"}, "backslash"),
        (
            {"fixture": "."},
            "fixture: a fixture must be a directory below the suite's directory, not that directory itself",
        ),
        ({"fixture": "missing"}, "fixture: no such directory: 'missing'"),
        ({"fixture": "suite.json"}, "fixture: not a directory: 'suite.json'"),
        ({"budget": {"maxWallMs": 1}}, "budget: missing required field 'maxTurns'"),
        ({"budget": {"maxTurns": 0, "maxWallMs": 1}}, "budget.maxTurns: expected at least 1, got 0"),
        (
            {"budget": {"maxTurns": 1, "maxWallMs": 2**53}},
            f"budget.maxWallMs: expected 1 to {2**53 - 1}, got {2**53}",  # no canonical JSON can hold it
        ),
        ({"budget": {"maxTurns": True, "maxWallMs": 1}}, "budget.maxTurns: expected an integer, got true"),
        ({"budget": {"maxTurns": 1.0, "maxWallMs": 1}}, "budget.maxTurns: expected an integer, got 1.0"),
        ({"budget": {"maxTurns": 1, "maxWallMs": 1, "maxTokens": 0}}, "budget.maxTokens: expected at least 1, got 0"),
        ({"policy": {"allow": ["write", "writ"]}}, "(did you mean 'write'?)"),
        ({"policy": {"allow": ["read"]}}, "policy.allow[0]: 'read' is always granted; leave it out"),
        ({"policy": {"allow": "write"}}, "policy.allow: expected an array, got 'write'"),
        ({"policy": {"readonly": True}}, "policy.readonly: unknown field 'readonly' (did you mean 'readOnly'?)"),
        ({"verifiers": []}, "verifiers: expected at least one verifier"),
        ({"tags": [1]}, "tags[0]: expected a string, got 1"),
        ({"agent": ""}, "agent: expected some text, got ''"),
        ({"fixtureGit": "yes"}, "fixtureGit: expected true or false, got 'yes'"),
        ({"replayNormalize": [{"pattern": "a"}]}, "replayNormalize[0]: missing required field 'replace'"),
        (
            {"replayNormalize": [{"pattern": "(", "replace": ""}]},
            "replayNormalize[0].pattern: not a regular expression",
        ),
        ({"replayNormalize": [{"pattern": "(a+)+", "replace": ""}]}, "an unbounded quantifier inside an unbounded one"),
    ],
)
def test_a_task_says_what_it_must(directory: Path, changed: dict[str, Any], told: str) -> None:
    (line,) = findings(directory, suite(task(**changed)))
    assert line.startswith("tasks[0]")
    assert line.endswith("(task 'fix-add')")
    assert told in line


@pytest.mark.parametrize(
    ("verifier", "told"),
    [
        ({**CHECK, "timeoutMs": 600001}, "timeoutMs: expected 1 to 600000, got 600001"),
        ({**CHECK, "timeoutMs": 0}, "timeoutMs: expected 1 to 600000, got 0"),
        ({**CHECK, "expectExit": 256}, "expectExit: expected 0 to 255, got 256"),
        ({**CHECK, "command": "ls -l"}, "command: expected an array, got 'ls -l'"),
        ({**CHECK, "command": []}, "command: expected a program and its arguments, got an empty array"),
        ({**CHECK, "command": ["a\0b"]}, "command[0]: an argument cannot hold a NUL character"),
        ({**CHECK, "timeout": 1}, "timeout: unknown field 'timeout' (did you mean 'timeoutMs'?)"),
        ({"kind": "file-absent", "id": "a", "path": "../x"}, "path: '../x' must not hold .."),
        ({"kind": "file-contains", "id": "a", "path": "x", "text": ""}, "text: every file contains ''"),
        ({"kind": "file-equals", "id": "a", "path": "x", "sha256": "AB"}, "sha256: expected 64 hexadecimal digits"),
        ({"kind": "tree-diff-within", "id": "a", "allowed": ["/tmp/"]}, "allowed[0]: '/tmp/' is absolute"),
        ({"kind": "tool-sequence", "id": "a", "rule": {"type": "nevr", "tool": "b"}}, "(did you mean 'never'?)"),
        ({"kind": "tool-sequence", "id": "a", "rule": {"type": "never"}}, "rule: missing required field 'tool'"),
        (
            {"kind": "tool-sequence", "id": "a", "rule": {"type": "max-calls", "tool": "b", "max": -1}},
            "rule.max: expected at least 0, got -1",
        ),
        ({"id": "a", "command": ["x"]}, "verifiers[0]: missing required field 'kind'"),
        ({"kind": "command", "command": ["x"]}, "verifiers[0]: missing required field 'id'"),
        ({**CHECK, "id": "a/b"}, "id: expected letters, digits"),
    ],
)
def test_a_verifier_says_what_it_must(directory: Path, verifier: dict[str, Any], told: str) -> None:
    (line,) = findings(directory, suite(task(verifiers=[verifier])))
    assert line.startswith("tasks[0].verifiers[0]")
    assert told in line


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "../a", "a\n", "é", "x" * 101])
def test_ids_are_fit_for_file_names_and_command_lines(directory: Path, name: str) -> None:
    (line,) = findings(directory, suite(task(id=name)))
    assert line.startswith("tasks[0].id: expected letters, digits, '.', '_' and '-'")


def test_ids_are_unique_even_where_case_is_ignored(directory: Path) -> None:
    told = findings(directory, suite(task(), task(), task(id="Fix-Add"), task(id="b", verifiers=[CHECK, CHECK])))
    assert told == [
        "tasks[1].id: duplicate task id 'fix-add'; the first is tasks[0]",
        "tasks[2].id: duplicate task id 'Fix-Add' (it differs from 'fix-add' only in case); the first is tasks[0]",
        "tasks[3].verifiers[1].id: duplicate verifier id 'check'; the first is verifiers[0] (task 'b')",
    ]


def test_the_content_names_every_file_with_its_hash_and_its_mode(directory: Path) -> None:
    fixture = directory / "fixtures" / "fix-add"
    (fixture / "check.py").chmod(0o755)
    (fixture / "link").symlink_to("src/math.py")
    (fixture / "__pycache__").mkdir()
    (fixture / "__pycache__" / "x.pyc").write_bytes(b"x")
    content = read(directory, suite(task(fixture="./fixtures//fix-add/"))).content
    digest = {file: hashlib.sha256((directory / file).read_bytes()).hexdigest() for file in ["suite.json"]}
    assert content == {
        **digest,
        "fixtures/fix-add/check.py": "x:" + hashlib.sha256(b"raise SystemExit(1)\n").hexdigest(),
        "fixtures/fix-add/link": "l:" + hashlib.sha256(b"src/math.py").hexdigest(),
        "fixtures/fix-add/src/math.py": hashlib.sha256(b"def add(a, b): return a - b\n").hexdigest(),
    }


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../outside", "../src/../../other"])
@pytest.mark.parametrize("folder", ["src", "node_modules"])
def test_a_link_that_leaves_the_fixture_is_refused(directory: Path, folder: str, target: str) -> None:
    where = directory / "fixtures" / "fix-add" / folder
    where.mkdir(exist_ok=True)
    (where / "link").symlink_to(target)
    (line,) = findings(directory, suite())
    assert f"{folder}/link: a symbolic link" in line


def test_links_that_lead_nowhere_inside_are_kept_as_they_are(directory: Path) -> None:
    fixture = directory / "fixtures" / "fix-add"
    (fixture / "loop").symlink_to("loop")
    (fixture / "later").symlink_to("src/not-yet.py")
    assert {"fixtures/fix-add/loop", "fixtures/fix-add/later"} < read(directory, suite()).content.keys()


def test_a_fifo_in_a_fixture_is_refused_without_opening_it(directory: Path) -> None:
    os.mkfifo(directory / "fixtures" / "fix-add" / "pipe")
    (line,) = findings(directory, suite())
    assert "pipe: neither a file nor a directory nor a symbolic link" in line


def test_a_fixture_behind_a_link_out_of_the_suite_is_refused(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (directory / "fixtures" / "away").symlink_to(tmp_path / "outside")
    (line,) = findings(directory, suite(task(fixture="fixtures/away")))
    assert "outside" in line


def test_broken_json_is_told_with_its_place(directory: Path) -> None:
    with pytest.raises(UsageError, match=r"suite\.json:2:2: duplicate key 'a'"):
        read(directory, '{"a": 1,\n "a": 2}')


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"suite\.json: no such file"):
        read_suite(tmp_path, bundled=False)


def test_two_thousand_tasks_are_read_in_a_second(directory: Path) -> None:
    document = suite(*(task(id=f"t{number}") for number in range(2000)))
    (directory / "suite.json").write_text(json.dumps(document, indent=1))
    started = time.process_time()
    assert len(read_suite(directory, bundled=False).tasks) == 2000
    assert time.process_time() - started < 1


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install a package of somebody else's with verifier kinds."""

    def install(name: str, module: str, points: dict[str, str]) -> None:
        (tmp_path / "site" / f"{name}-1.dist-info").mkdir(parents=True)
        (tmp_path / "site" / f"{name}.py").write_text(module)
        info = tmp_path / "site" / f"{name}-1.dist-info"
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        lines = [f"{kind} = {name}:{where}" for kind, where in points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[evalctl.verifiers]", *lines]))
        monkeypatch.syspath_prepend(tmp_path / "site")

    return install


FOREIGN = """
import attrs
@attrs.frozen(kw_only=True)
class LineCount:
    api_version = 1
    kind = "line-count"
    id: str
    max_lines: int = attrs.field(validator=attrs.validators.ge(1))
class Plain:
    api_version = 1
"""


def test_a_kind_of_another_package_is_read_like_our_own(directory: Path, packages: Callable[..., None]) -> None:
    packages("counting", FOREIGN, {"line-count": "LineCount", "plain": "Plain", "gone": "Missing"})
    counting = {"kind": "line-count", "id": "lines"}
    (only,) = read(directory, suite(task(verifiers=[{**counting, "maxLines": 3}]))).tasks
    lines: Any = only.verifiers[0]
    assert lines.max_lines == 3
    told = findings(
        directory,
        suite(
            task(
                verifiers=[
                    {**counting, "maxLines": 0},
                    {**counting, "id": "b", "lines": 1},
                    {"kind": "plain", "id": "c"},
                    {"kind": "gone", "id": "d"},
                ]
            )
        ),
    )
    assert [line.removeprefix("tasks[0].verifiers").removesuffix(" (task 'fix-add')")[:62] for line in told] == [
        "[0].maxLines: must be >= 1: 0",
        "[1]: missing required field 'maxLines'",
        "[1].lines: unknown field 'lines' (did you mean 'maxLines'?)",
        "[2].kind: kind 'plain' cannot be read from a file: its class i",
        "[3].kind: verifier kind 'gone' of counting does not load: Attr",
    ]


WRONG: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just([]) | st.just({}) | st.just([[]])
)


@given(data=st.data())
def test_whatever_is_wrong_becomes_findings_and_never_a_crash(
    data: DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    document = copy.deepcopy(suite(task(policy={"mode": "auto", "allow": ["write"]}, tags=["a"])))
    document["tasks"][0]["replayNormalize"] = [{"pattern": "a", "replace": "b"}]
    where = document
    while isinstance(where, (dict, list)) and where:
        step = data.draw(st.sampled_from(sorted(where) if isinstance(where, dict) else range(len(where))))
        if not isinstance(where[step], (dict, list)) or data.draw(st.booleans()):
            where[step] = data.draw(WRONG)
            break
        where = where[step]
    directory = tmp_path_factory.mktemp("suite")
    (directory / "fixtures" / "fix-add").mkdir(parents=True)
    (directory / "suite.json").write_text(json.dumps(document))
    try:
        read_suite(directory, bundled=False)
    except UsageError as error:
        assert str(error).startswith(str(directory))  # noqa: PT017 - either is fine, a crash is not


@pytest.mark.parametrize("pattern", [r"(a+)+", r"(a*b)*", r"((a+)?)+", r"(?:x{2,}y?)+", r"(?P<n>\d+,)*", r"([+*]+)+"])
def test_nested_unbounded_quantifiers_are_refused(pattern: str) -> None:
    assert "unbounded" in find_pattern_fault(pattern + "end")


@pytest.mark.parametrize(
    "pattern",
    [
        r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z",
        r"pid \d+",
        r"(a|b)+c",
        r"[(+)]+x",
        r"\(a+\)+",
        r"(\d+,){3}\d",
        r"(?i:error)+",
        r"(?P<q>['\"]).*?(?P=q)",
        r"[]+]+",
    ],
)
def test_ordinary_patterns_are_accepted(pattern: str) -> None:
    assert find_pattern_fault(pattern) is None


@pytest.mark.parametrize("pattern", ["", "a*", "(?:)", "x" * 1001, "(", "[[a]&&b]"])
def test_patterns_of_no_use_are_refused(pattern: str) -> None:
    assert find_pattern_fault(pattern)
