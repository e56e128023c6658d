"""The sandbox with the real bwrap: what a program inside can and cannot do, and that nothing of it survives."""

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from providers.system.process import ProcessNotStarted, build_tool_environment
from providers.system.sandbox import Sandbox, find_bubblewrap, prove_sandbox, run_confined
from tests.e2e.conftest import tiny
from tests.peers.driver import Driver, clean_environment, marked, until

pytestmark = [pytest.mark.anyio, pytest.mark.peers]
SWEEP = "bwrap-0badcafe"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "private").mkdir()
    return work


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    (tmp_path / "store").mkdir()
    return find_bubblewrap(os.environ, store=tmp_path / "store" / "runs.db")  # noqa: TID251 - the machine as it is


async def inside(sandbox: Sandbox, place: Path, script: str, *, timeout_s: float = 20.0) -> tuple[int | None, str]:
    home = place.parent / "private"
    finished = await run_confined(
        sandbox,
        ["sh", "-c", script],
        cwd=place,
        environment=build_tool_environment(home),
        marker=f"{SWEEP}/0/1",
        timeout_s=timeout_s,
        output_limit=10_000,
    )
    return finished.exit_code, (finished.stdout + finished.stderr).decode()


async def test_the_probe_passes(sandbox: Sandbox) -> None:
    await prove_sandbox(sandbox, os.environ)  # noqa: TID251 - the machine as it is


async def test_workspace_and_home_are_writable_and_kept(sandbox: Sandbox, place: Path) -> None:
    code, said = await inside(sandbox, place, 'echo a > made && echo b > "$HOME/made" && pwd')
    assert (code, said.strip()) == (0, str(place))
    assert (place / "made").read_text(encoding="ascii") == "a\n"
    assert (place.parent / "private" / "made").read_text(encoding="ascii") == "b\n"


@pytest.mark.parametrize("where", ["/etc", "/usr", "/usr/local", "/home", "/root", "/run"])
async def test_nothing_else_is_writable(sandbox: Sandbox, place: Path, where: str) -> None:
    code, said = await inside(sandbox, place, f"touch {where}/evalctl-was-here")
    assert code == 1
    assert "evalctl-was-here" in said
    assert not (Path(where) / "evalctl-was-here").exists()


async def test_what_lies_in_tmp_home_and_store_is_not_seen(sandbox: Sandbox, place: Path, tmp_path: Path) -> None:
    (tmp_path / "store" / "runs.db").touch()
    (tmp_path / "neighbour").touch()
    code, said = await inside(
        sandbox,
        place,
        f"ls {tmp_path}/store {tmp_path}/neighbour; ls -A ~root /home; echo x > /tmp/{tmp_path.name}-mine",
    )
    assert code == 0
    assert said.count("No such file or directory") == 2
    assert "runs.db\n" not in said.replace(f"{tmp_path}/store/runs.db", "")
    assert f"{tmp_path.name}-mine" not in os.listdir("/tmp")  # noqa: PTH208 - names are all it takes


async def test_there_is_no_network_unless_it_is_granted(sandbox: Sandbox, place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'"
        assert (await inside(sandbox, place, script))[0] == 1
        opened = Sandbox(program=sandbox.program, hidden=sandbox.hidden, visible=sandbox.visible, network=True)
        code, said = await inside(opened, place, script)
        assert (code, said) == (0, "")


async def test_it_sees_no_process_but_its_own_and_has_no_capability(sandbox: Sandbox, place: Path) -> None:
    _, said = await inside(sandbox, place, "ls /proc | grep -c '^[0-9]*$'; grep CapEff /proc/self/status")
    number, capabilities = said.splitlines()
    assert int(number) <= 6
    assert int(capabilities.split()[1], 16) == 0


async def test_exit_codes_and_signals_come_through(sandbox: Sandbox, place: Path) -> None:
    assert (await inside(sandbox, place, "exit 7"))[0] == 7
    assert (await inside(sandbox, place, "kill -9 $$"))[0] == 128 + signal.SIGKILL


async def test_a_program_that_is_missing_is_not_started_rather_than_failed(sandbox: Sandbox, place: Path) -> None:
    with pytest.raises(ProcessNotStarted, match="nonesuch"):
        await run_confined(
            sandbox,
            ["nonesuch"],
            cwd=place,
            environment=build_tool_environment(place.parent / "private"),
            marker="",
            timeout_s=20,
            output_limit=1000,
        )


async def test_a_program_that_speaks_like_bwrap_is_not_taken_for_it(sandbox: Sandbox, place: Path) -> None:
    code, said = await inside(sandbox, place, "echo 'bwrap: execvp sh: No such file or directory' >&2; exit 1")
    assert (code, said.startswith("bwrap:")) == (1, True)


async def test_a_descendant_without_environment_in_a_session_of_its_own_dies_too(sandbox: Sandbox, place: Path) -> None:
    """The one that escapes without a PID namespace."""
    marker = 86_400 + os.getpid()  # a number of seconds that no other process sleeps
    script = f"env -i setsid sleep {marker} & echo started; sleep {marker}"
    code, said = await inside(sandbox, place, script, timeout_s=0.5)
    assert (code, said) == (None, "started\n")
    until(lambda: not sleeping(str(marker)), "everything inside to be gone")
    assert marked([SWEEP]) == []


def sleeping(argument: str) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:2] == [b"sleep", argument.encode()]:
                found.append(int(folder.name))
    return found


# --- a whole sweep ------------------------------------------------------------------------------------------------


def test_a_sweep_in_the_sandbox_confines_tool_and_verifier_and_says_so(tmp_path: Path) -> None:
    look = "ls $EVALCTL_STORE_DIR; touch /usr/evalctl-was-here; echo done > out.txt"
    call = {"id": "c", "name": "bash", "arguments": {"command": look}}
    script = {"format": "evalctl.script/1", "plays": [{"answers": [{"toolCalls": [call]}, {"text": "done"}]}]}
    suite = tmp_path / "tiny"
    (suite / "fixtures" / "note").mkdir(parents=True)
    (suite / "fixtures" / "note" / "note.txt").write_text("hello\n", encoding="ascii")
    (suite / "scripts").mkdir()
    (suite / "scripts" / "one.json").write_text(json.dumps(script), encoding="ascii")
    task = {
        "id": "one",
        "prompt": "Do it.",
        "fixture": "fixtures/note",
        "budget": {"maxTurns": 5, "maxWallMs": 60_000},
        "policy": {"mode": "auto", "allow": ["process"]},
        "verifiers": [
            {
                "kind": "command",
                "id": "confined",
                "command": ["sh", "-c", "test -f out.txt && ! touch /usr/evalctl-was-here 2>&1 && ls /proc | wc -l"],
            }
        ],
    }
    document = {
        "schemaVersion": 1,
        "suiteId": "tiny",
        "suiteVersion": "1.0.0",
        "description": "One task.",
        "tasks": [task],
    }
    (suite / "suite.json").write_text(json.dumps(document), encoding="ascii")
    home = tmp_path / "home"
    home.mkdir()
    evalctl = Driver(home, clean_environment(home))

    done = evalctl.run("--json", *tiny(suite, "--k", "1", "--allow-process", "--sandbox", "bwrap"))
    assert done.code == 0, done.stderr
    assert done.json["summary"]["passes"] == 1
    assert done.json["conditions"]["sandbox"] == "bwrap"
    assert not Path("/usr/evalctl-was-here").exists()
    shown = evalctl.run("--json", "show", "last/1").json
    (output,) = [event["output"] for event in shown["events"] if event["kind"] == "tool_completed"]
    assert "Read-only file system" in output
    report = (home / "store" / "eval" / evalctl.sweep_names()[0] / "report.md").read_text(encoding="utf-8")
    assert "| sandbox | bwrap |" in report
