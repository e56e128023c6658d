from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from providers.agent.loop import BuiltinAgent
from providers.agent.shell import provide_home
from providers.base import Answer, Policy, Request
from store.documents.text import MAX_WORD_CHARACTERS
from tests.providers.agent.conftest import EVERYTHING, Work, Worked, call, make_assignment
from tests.providers.system.test_process import has_lived, is_alive, pids

pytestmark = pytest.mark.anyio


async def run(work: Callable[..., Awaitable[Worked]], command: str, **arguments: Any) -> dict[str, object]:
    """What the model is told of one command."""
    worked = await work([Answer(calls=(call("bash", command=command, **arguments),)), Answer()])
    assert not worked.answers[0].is_error
    told: dict[str, object] = json.loads(worked.answers[0].text)
    return told


def exists(path: str) -> bool:
    return Path(path).exists()


async def test_exit_code_is_an_answer_and_no_error(work: Work) -> None:
    told = await run(work, "echo out; echo err >&2; exit 3")

    assert told == {"exitCode": 3, "stdout": "out\n", "stderr": "err\n", "truncated": False, "timedOut": False}


async def test_command_works_in_the_workspace_with_a_home_outside_it(work: Work, workspace: Path) -> None:
    told = await run(work, "pwd; echo $HOME; echo $TMPDIR; touch ~/x")

    home = workspace.parent / "home"
    assert told["stdout"] == f"{workspace}\n{home}\n{home}\n"
    assert list(workspace.iterdir()) == []


async def test_keys_of_the_environment_do_not_reach_a_command(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    told = await run(work, "env")

    assert "sk-secret" not in str(told["stdout"])
    assert "EVALCTL_ATTEMPT=sweep-1a2b3c4d/0/1\n" in str(told["stdout"])


async def test_a_commit_cannot_land_in_a_repository_around_the_workspace(work: Work, workspace: Path) -> None:
    around = workspace.parent.parent
    await anyio.run_process(["git", "init", "-q", str(around)])
    (workspace / "new").touch()
    commit = "git add -A && git -c user.name=a -c user.email=a@localhost commit -qm x"
    told = await run(work, f"{commit}; (cd .. && {commit}); (cd ~ && {commit}); (cd ../.. && git rev-parse HEAD)")
    assert str(told["stderr"]).count("not a git repository") == 3
    assert not any((around / ".git" / "refs" / "heads").iterdir())


async def test_a_repository_in_the_workspace_is_found_from_below(work: Work, workspace: Path) -> None:
    told = await run(work, "git init -q . && mkdir -p a/b && cd a/b && git rev-parse --show-toplevel")
    assert told["stdout"] == f"{workspace.resolve()}\n"


async def test_timeout_is_told_without_an_exit_code(work: Work) -> None:
    told = await run(work, "echo begun; sleep 60", timeoutMs=300)

    assert (told["exitCode"], told["timedOut"], told["stdout"]) == (None, True, "begun\n")


async def test_output_is_cut_between_characters(work: Work) -> None:
    told = await run(work, "python3 -c \"print('x' + 'ä' * 20000)\"")

    assert told["truncated"]
    assert told["stdout"] == "x" + "ä" * (15_999 - MAX_WORD_CHARACTERS)  # half a word may be half a credential


async def test_background_processes_end_with_the_command(work: Work, workspace: Path) -> None:
    await run(work, "setsid sh -c 'echo $$ >> pids; exec sleep 300' & until [ -s pids ]; do sleep 0.02; done")

    assert len(pids(workspace)) == 1
    assert not is_alive(pids(workspace)[0])


async def test_link_made_by_a_command_leads_no_tool_outside(work: Work, workspace: Path) -> None:
    (workspace / "dir").mkdir()
    (workspace / "dir" / "passwd").write_text("mine")
    worked = await work(
        [
            Answer(calls=(call("read_file", id="a", path="dir/passwd"),)),
            Answer(
                calls=(
                    call("bash", id="b", command="rm -r dir && ln -s /etc dir"),
                    call("read_file", id="c", path="dir/passwd"),
                    call("write_file", id="d", path="dir/new", content="x", expectedHash=None),
                )
            ),
            Answer(),
        ]
    )

    assert [answer.is_error for answer in worked.answers] == [False, False, True, True]
    assert "outside" in worked.answers[2].text
    assert not exists("/etc/new")


async def test_cancelling_the_work_kills_its_command(workspace: Path) -> None:
    command = "sleep 300 & echo $! >> pids; setsid sh -c 'echo $$ >> pids; exec sleep 300' & wait"

    async def ask(request: Request) -> Answer:
        return Answer(calls=(call("bash", command=command),))

    task = make_assignment(workspace, policy=Policy(granted=EVERYTHING))
    async with anyio.create_task_group() as runs:
        runs.start_soon(BuiltinAgent().work, task, ask, list[object]().append)
        await has_lived(workspace, 2)
        runs.cancel_scope.cancel()

    assert not any(is_alive(pid) for pid in pids(workspace))


def test_home_at_a_given_place_is_made_when_it_is_needed_and_left_to_who_gave_it(tmp_path: Path) -> None:
    with provide_home(tmp_path / "home") as home:
        assert not (tmp_path / "home").exists()
        assert home().is_dir()
    assert (tmp_path / "home").is_dir()


def test_home_that_had_to_be_made_is_removed_with_what_is_in_it(tmp_path: Path) -> None:
    with provide_home(None) as home:
        (home() / "x").write_text("x")
        made = home()
        assert home() == made
    assert not made.exists()

    with provide_home(tmp_path) as home:
        assert home() == tmp_path
    assert tmp_path.exists()
