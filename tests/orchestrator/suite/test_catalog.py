import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from orchestrator.cli.app import make_application
from orchestrator.installation import BUNDLED, clash_warnings, sqlite_warnings
from orchestrator.suite.catalog import find_places, find_suite, list_suites, read_place
from orchestrator.suite.model import Suite, Task
from orchestrator.workspaces.fixture import Fixtures, open_workspace
from providers.agent.loop import BuiltinAgent
from providers.base import AgentSettings, Answer, Assignment, Origin, Policy, Request, ToolUse
from providers.registry import ProviderOptions
from providers.scripted.script import read_scripts
from providers.scripted.scripted import open_provider
from providers.system.tree import list_changes
from store.errors import UsageError
from store.events import Event, ToolCompleted
from verifiers.aggregate import combine_verdicts, run_verifiers
from verifiers.base import Evidence
from verifiers.tool_sequence import ToolSequence, find_breach

SMOKE = find_suite("smoke-coding", None)
TOOLS = find_suite("tool-sequences", None)
DEMO = find_suite("demo", None)

MINIMAL = """{"schemaVersion": 1, "suiteId": "%s", "suiteVersion": "1.0.0", "tasks": [
 {"id": "t", "prompt": "p", "fixture": "f", "budget": {"maxTurns": 1, "maxWallMs": 1},
  "verifiers": [{"kind": "file-absent", "id": "a", "path": "x"}]}]}"""


def make(directory: Path, suite_id: str | None = None, text: str | None = None) -> Path:
    (directory / "f").mkdir(parents=True)
    (directory / "suite.json").write_text(text or MINIMAL % (suite_id or directory.name))
    return directory


def test_a_repository_in_a_fixture_is_named_by_its_place(tmp_path: Path) -> None:
    root = make(tmp_path / "mini")
    (root / "f" / "vendor").mkdir()
    (root / "f" / "vendor" / ".git").write_text("gitdir: ../../.git/modules/vendor\n")
    result = CliRunner().invoke(make_application(), ["check", "mini", "--suite-dir", str(root)])
    assert result.exit_code == 0
    assert f"warning: {root}/f/vendor/.git: left out of workspaces: a file that names a repository" in result.output


# --- the bundled suites -----------------------------------------------------------------------------------------


async def verdict(
    suite: Suite, task: Task, tmp_path: Path, *, repetition: int | None = None, outputs: list[str] | None = None
) -> str:
    """What the verifiers say of the untouched fixture, or of what the script's repetition makes of it; what its tools
    answered goes to *outputs*.
    """
    tools: tuple[ToolUse, ...] = ()
    fixture = await Fixtures().read_cached(suite.root / task.fixture)
    environment = {"PATH": os.environ["PATH"]}  # noqa: TID251 - a test is its own edge
    async with open_workspace(fixture, git=False, keep=False, parent=tmp_path, name=task.id) as made:
        if repetition is not None:
            provider = open_provider(ProviderOptions(suite_root=suite.root))
            assignment = Assignment(
                origin=Origin(suite_id=suite.suite_id, case_id=task.id, repetition=repetition),
                prompt=task.prompt,
                workspace=made.path,
                model="scripted",
                policy=Policy(mode=task.policy.mode, granted=frozenset({"read", *task.policy.allow})),
                settings=AgentSettings(),
                max_turns=task.budget.max_turns,
                max_tokens=task.budget.max_tokens,
                max_tool_calls=task.budget.max_tool_calls,
                marker="test-00000000/1/1",
            )

            async def ask(request: Request) -> Answer:
                return await provider.answer(request, lambda _: None)

            def note(event: Event) -> None:
                if isinstance(event, ToolCompleted) and outputs is not None:
                    outputs.append(event.output)

            done = await BuiltinAgent().work(assignment, ask, note)
            assert done.stop == "completed"
            assert done.text != "Script ended."
            assert done.usage.input > 0
            assert done.usage.cached is not None
            tools = done.tools
        evidence = Evidence(
            workspace=made.path,
            fixture=suite.root / task.fixture,
            changes=list_changes(made.before, made.path),
            tools=tools,
            marker="test-00000000/1/1",
            environment=environment,
        )
        judgements = await run_verifiers(task.verifiers, evidence)
        return combine_verdicts(judgements)[0]


@pytest.fixture(autouse=True)
def this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks' `python3` is the one that runs the tests: whatever else the machine calls so may be slow to start."""
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))  # noqa: TID251 - a test is its own edge


def solved_by_script() -> list[Any]:
    """Every task of every bundled suite but the demo, whose scripts show failures too."""
    suites = [suite for place in find_places(None) if (suite := read_place(place).suite) is not None]
    return [
        pytest.param(suite, task, id=f"{suite.suite_id}/{task.id}")
        for suite in suites
        if suite.suite_id != DEMO.suite_id
        for task in suite.tasks
    ]


@pytest.mark.anyio
@pytest.mark.parametrize(("suite", "task"), solved_by_script())
async def test_the_scripted_solution_passes_and_the_untouched_fixture_fails(
    suite: Suite, task: Task, tmp_path: Path
) -> None:
    assert await verdict(suite, task, tmp_path) == "fail"
    plays = read_scripts(suite.root)[task.id].plays
    for repetition in range(len(plays)):
        assert await verdict(suite, task, tmp_path, repetition=repetition) == "pass"


@pytest.mark.anyio
async def test_the_demo_solves_one_task_always_one_sometimes_and_one_never(tmp_path: Path) -> None:
    passes = {}
    for task in DEMO.tasks:
        assert await verdict(DEMO, task, tmp_path) == "fail"
        verdicts = [await verdict(DEMO, task, tmp_path, repetition=repetition) for repetition in range(5)]
        passes[task.id] = verdicts.count("pass")
    assert passes == {"fix-greeting": 5, "sort-versions": 3, "leap-year": 0}


def test_smoke_coding_is_what_the_documents_say() -> None:
    assert (SMOKE.suite_version, len(SMOKE.tasks)) == ("1.2.0", 7)
    assert {"rename-symbol", "edit-respects-hash", "off-by-one-among-passing"} < {task.id for task in SMOKE.tasks}
    assert all(task.policy.allow == ("write", "process") for task in (*SMOKE.tasks, *DEMO.tasks))


def test_tool_sequences_asks_for_order_by_all_rules() -> None:
    assert (TOOLS.suite_version, len(TOOLS.tasks)) == ("1.0.0", 6)
    assert all(task.policy.allow == ("write", "process") for task in TOOLS.tasks)
    rules = [{v.rule.type for v in task.verifiers if isinstance(v, ToolSequence)} for task in TOOLS.tasks]
    assert all(rules)
    assert set().union(*rules) == {"before", "never", "max-calls", "no-repeat-failure"}


@pytest.mark.anyio
async def test_one_invalid_transition_is_tried_refused_and_recovered_from_and_no_tool_output_differs_by_run(
    tmp_path: Path,
) -> None:
    refused = []
    for task in TOOLS.tasks:
        first: list[Any] = []
        second: list[Any] = []
        assert await verdict(TOOLS, task, tmp_path, repetition=0, outputs=first) == "pass"
        assert await verdict(TOOLS, task, tmp_path, repetition=0, outputs=second) == "pass"
        assert first == second  # nor anything of dates, processes or folders: a recording of it can be replayed
        assert str(tmp_path) not in "".join(first)
        refused += [task.id for output in first if '"stderr": "refused: ' in output]
    assert refused == ["publish-document"]


@pytest.mark.anyio
@pytest.mark.parametrize("task", TOOLS.tasks, ids=lambda task: task.id)
async def test_the_right_result_by_the_wrong_calls_does_not_pass(task: Task, tmp_path: Path) -> None:
    """Calls the other way round, each made twice, break a rule of every task, whatever the files look like."""
    calls = [call for answer in read_scripts(TOOLS.root)[task.id].plays[0].answers for call in answer.tool_calls]
    checked = {"command": "python3 check.py"}  # asked for at the end, it says nothing of the order
    made = [ToolUse(name=c.name, arguments=c.arguments, is_error=True) for c in calls if c.arguments != checked]
    used = tuple(use for use in reversed(made) for _ in range(2))
    broken = [v.id for v in task.verifiers if isinstance(v, ToolSequence) and find_breach(v.rule, used) is not None]
    assert broken


def test_every_bundled_suite_is_well_formed_and_scripted_whole() -> None:
    for listed in map(read_place, find_places(None)):
        assert listed.errors == ()
        assert listed.place.bundled
        assert listed.suite is not None
        assert listed.suite.suite_id == listed.place.directory.name
        assert listed.scripted == {task.id for task in listed.suite.tasks}


def test_what_is_listed_of_a_bundled_suite_is_what_reading_it_would_tell() -> None:
    for glimpsed in list_suites(None):
        assert glimpsed.suite is None
        assert glimpsed.outline == read_place(glimpsed.place).outline


# --- finding ----------------------------------------------------------------------------------------------------


def test_a_suite_is_found_by_its_id_or_its_directory(tmp_path: Path) -> None:
    make(tmp_path / "folder", "my-suite")
    assert find_suite("my-suite", tmp_path).root == tmp_path / "folder"
    assert find_suite("folder", tmp_path).suite_id == "my-suite"
    assert find_suite("my-suite", tmp_path / "folder").bundled is False
    assert find_suite("demo", tmp_path).bundled is True


def test_an_id_wins_over_the_name_of_another_directory(tmp_path: Path) -> None:
    make(tmp_path / "one", "two")
    make(tmp_path / "two", "three")
    assert find_suite("two", tmp_path).root == tmp_path / "one"
    assert find_suite("three", tmp_path).root == tmp_path / "two"


def test_an_unknown_suite_is_told_with_the_nearest_names() -> None:
    with pytest.raises(UsageError) as caught:
        find_suite("smoke-codng", None)
    assert str(caught.value).startswith(
        "unknown suite 'smoke-codng'\nDid you mean smoke-coding? Suites: demo, long-context"
    )


def test_a_path_in_the_place_of_a_name_is_explained(tmp_path: Path) -> None:
    make(tmp_path / "mine")
    with pytest.raises(UsageError, match=rf"mine --suite-dir {tmp_path / 'mine'}$"):
        find_suite(str(tmp_path / "mine"), None)


def test_two_suites_of_one_id_are_refused_until_one_is_named_by_its_directory(tmp_path: Path) -> None:
    make(tmp_path / "a", "same")
    make(tmp_path / "b", "same")
    with pytest.raises(UsageError) as caught:
        find_suite("same", tmp_path)
    assert str(tmp_path / "a") in str(caught.value)
    assert str(tmp_path / "b") in str(caught.value)
    assert str(caught.value).splitlines()[-1].startswith(f"Name one of them, such as same --suite-dir {tmp_path / 'b'}")
    assert find_suite("same", tmp_path / "b").root == tmp_path / "b"
    assert find_suite("a", tmp_path).root == tmp_path / "a"


def test_what_is_advised_about_a_suite_called_as_a_bundled_one_leads_to_it(tmp_path: Path) -> None:
    make(tmp_path / "demo", "demo")
    for name, suite_dir in (("demo", tmp_path), (str(tmp_path / "demo"), tmp_path), (str(tmp_path / "demo"), None)):
        with pytest.raises(UsageError) as caught:
            find_suite(name, suite_dir)
        called, directory = re.findall(r"(\S+) --suite-dir ([^\s,]+)", str(caught.value))[-1]
        assert find_suite(called, Path(directory)).root == tmp_path / "demo"
    assert find_suite("demo", None).bundled


def test_a_broken_suite_is_listed_and_does_not_hide_the_others(tmp_path: Path) -> None:
    make(tmp_path / "good")
    make(tmp_path / "broken", text='{"schemaVersion": 1,}')
    make(tmp_path / "wrong", text='{"schemaVersion": 1, "suiteId": 3}')
    listed = {one.place.directory.name: one for one in list_suites(tmp_path) if not one.place.bundled}
    assert listed["good"].suite is not None
    assert listed["broken"].errors == (f"{tmp_path / 'broken' / 'suite.json'}:1:20: trailing comma",)
    assert any("suiteId: expected a string, got 3" in line for line in listed["wrong"].errors)
    assert find_suite("good", tmp_path).suite_id == "good"
    with pytest.raises(UsageError, match="trailing comma"):
        find_suite("broken", tmp_path)


def test_the_bundled_directory_given_by_hand_is_not_listed_twice() -> None:
    assert list_suites(BUNDLED) == list_suites(None)


def test_a_suite_dir_without_a_suite_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no suite here"):
        list_suites(tmp_path)
    with pytest.raises(UsageError, match="no such directory"):
        list_suites(tmp_path / "missing")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="not a directory"):
        list_suites(tmp_path / "file")


# --- the verbs --------------------------------------------------------------------------------------------------


def cli(*arguments: str | Path) -> Result:
    return CliRunner().invoke(make_application(), [str(argument) for argument in arguments])


def test_list_shows_a_table(tmp_path: Path) -> None:
    make(tmp_path / "mine", "my-suite")
    make(tmp_path / "broken", text="{")
    result = cli("list", "--suite-dir", tmp_path)
    assert result.exit_code == 0
    assert re.search(r"^smoke-coding +1\.2\.0 +7 +7 +bundled +Seven", result.stdout, re.MULTILINE)
    assert re.search(rf"^my-suite +1\.0\.0 +1 +0 +{tmp_path}/mine$", result.stdout, re.MULTILINE)
    assert re.search(r"^broken +- +- +- .* BROKEN \(1 finding\)$", result.stdout, re.MULTILINE)
    assert "1 broken" in result.stderr


def test_list_speaks_json(tmp_path: Path) -> None:
    make(tmp_path / "broken", text="{")
    document = json.loads(cli("--json", "list", "--suite-dir", tmp_path).stdout)
    assert document["schema"] == "evalctl.suites/1"
    demo, *_, broken = document["suites"]
    assert (demo["suiteId"], demo["bundled"], len(demo["tasks"])) == ("demo", True, 3)
    assert demo["tasks"][0] == {"id": "fix-greeting", "tags": ["demo"], "scripted": True}
    assert broken["broken"] is True
    assert "1:2" in broken["errors"][0]


def test_check_of_sound_suites_says_so_and_exits_with_0() -> None:
    result = cli("check", "demo", "smoke-coding")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "demo 1.0.0: ok, 3 tasks" in result.stderr


def test_check_prints_the_findings_of_suites_and_scripts_and_exits_with_1(tmp_path: Path) -> None:
    suite = make(tmp_path / "mine", text=(MINIMAL % "mine").replace('"maxTurns": 1', '"maxTurns": "1"'))
    (suite / "scripts").mkdir()
    (suite / "scripts" / "t.json").write_text('{"format": "evalctl.script/1",\n "plays": [{"answrs": []}]}')
    result = cli("check", "mine", "--suite-dir", tmp_path)
    assert result.exit_code == 1
    assert (
        f"{suite}/suite.json:2:56: tasks[0].budget.maxTurns: expected an integer, got '1' (task 't')" in result.stdout
    )
    assert (
        f"{suite}/scripts/t.json:2:13: plays[0].answrs: unknown field 'answrs' (did you mean 'answers'?)"
        in result.stdout
    )


def test_check_warns_of_a_script_that_no_task_plays(tmp_path: Path) -> None:
    suite = make(tmp_path / "mine")
    (suite / "scripts").mkdir()
    (suite / "scripts" / "tt.json").write_text('{"format": "evalctl.script/1", "plays": [{"answers": []}]}')
    result = cli("check", "mine", "--suite-dir", tmp_path)
    assert result.exit_code == 0
    assert "no task is called 'tt' (did you mean 't'?)" in result.stderr


def test_check_tells_of_two_suites_with_one_id(tmp_path: Path) -> None:
    make(tmp_path / "a", "same")
    make(tmp_path / "b", "same")
    result = cli("check", "--suite-dir", tmp_path)
    assert result.exit_code == 1
    assert "2 suites have the suiteId 'same'" in result.stdout


@pytest.mark.parametrize(
    ("version", "racy"),
    [
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 49, 1), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 52, 0), False),
    ],
)
def test_sqlite_versions_with_the_race_are_warned_of(version: tuple[int, int, int], racy: bool) -> None:
    assert bool(sqlite_warnings(version)) is racy


def test_another_owner_of_one_of_our_folders_is_named() -> None:
    owners = {"store": ["evalctl_lab", "shop"], "providers": ["evalctl-lab"], "numpy": ["numpy"]}
    (warning,) = clash_warnings(owners)
    assert "'store'" in warning
    assert "shop" in warning


@pytest.mark.parametrize("verb", ["list", "check"])
def test_help_needs_nothing_heavy(verb: str) -> None:
    code = (
        "import sys; from orchestrator.cli.app import run_command; run_command([sys.argv[1], '--help']);"
        "sys.exit(str(heavy) if (heavy := {'httpx', 'asyncio', 'cattrs', 'rich', 'structlog', 'rfc8785', 'aiosqlite'}"
        " & sys.modules.keys()) else 0)"
    )
    argv = [sys.executable, "-c", code, verb]
    ran = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=BUNDLED.parent)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Exit codes" in ran.stdout


# --- the documents ----------------------------------------------------------------------------------------------

DOCS = Path(__file__).parent.parent.parent.parent / "docs"


def json_blocks(page: str) -> list[str]:
    return re.findall(r"```json[^\n]*\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


def test_the_documented_suite_is_a_suite(tmp_path: Path) -> None:
    text, _, _ = json_blocks("writing-a-suite.md")
    (tmp_path / "my-suite" / "fixtures" / "fix-add").mkdir(parents=True)
    (tmp_path / "my-suite" / "suite.json").write_text(text)
    assert [task.id for task in find_suite("my-suite", tmp_path).tasks] == ["fix-add"]


def test_the_documented_rules_are_those_of_the_bundled_task() -> None:
    _, verifiers, _ = json_blocks("writing-a-suite.md")
    bundled = json.loads((TOOLS.root / "suite.json").read_text(encoding="utf-8"))["tasks"]
    assert json.loads(verifiers) == next(task["verifiers"] for task in bundled if task["id"] == "edit-twice")


def test_the_documented_scripts_are_scripts(tmp_path: Path) -> None:
    whole, *answers = json_blocks("scripted-provider.md")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "whole.json").write_text(whole)
    for number, answer in enumerate(answers):
        text = f'{{"format": "evalctl.script/1", "plays": [{{"answers": [{answer}]}}]}}'
        (tmp_path / "scripts" / f"{number}.json").write_text(text)
    assert len(read_scripts(tmp_path)) == len(answers) + 1 == 3
