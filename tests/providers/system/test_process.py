from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from providers.system.process import (
    FinishedProcess,
    ProcessNotStarted,
    ProcessStreams,
    build_tool_environment,
    kill_marked_processes,
    run_process,
)

pytestmark = pytest.mark.anyio

MARKER = "20261130T101500Z-1a2b3c4d/7/1"

TREE = """
sleep 301 & echo $! >> pids
setsid sh -c 'echo $$ >> pids; exec sleep 302' &
sh -c "(setsid sh -c 'echo \\$\\$ >> pids; exec sleep 303' &) ; exit" &
python3 -c "
import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open('pids', 'a').write(f'{os.getpid()}\\\\n')
        os.execvp('sleep', ['sleep', '304'])
    os._exit(0)
os.wait()
" &
"""
"""Four descendants: in the group, in a session of its own, orphaned by a double fork, both."""


async def run(cwd: Path, script: str, **settings: Any) -> FinishedProcess:
    given = {"timeout_s": 20.0, "output_limit": 32_000, "marker": MARKER, **settings}
    return await run_process(["sh", "-c", script], cwd=cwd, environment=build_tool_environment(cwd), **given)


def start(argv: list[str], environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """A process that `run_process` knows nothing of."""
    return subprocess.Popen(argv, env=environment, start_new_session=True)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def pids(cwd: Path) -> list[int]:
    """Those that a script has written down so far."""
    try:
        return [int(line) for line in (cwd / "pids").read_text().splitlines()]
    except FileNotFoundError:
        return []


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(15):
        while not condition():  # noqa: ASYNC110 - it comes true in another process
            await anyio.sleep(0.01)


async def has_lived(cwd: Path, count: int) -> None:
    await until(lambda: len(pids(cwd)) >= count)
    assert all(is_alive(pid) for pid in pids(cwd))


async def test_output_and_exit_code_are_reported(tmp_path: Path) -> None:
    finished = await run(tmp_path, "echo out; echo err >&2; exit 3")

    assert (finished.exit_code, finished.stdout, finished.stderr) == (3, b"out\n", b"err\n")
    assert not finished.truncated
    assert not finished.timed_out
    assert finished.survivors_killed == 0


async def test_merged_streams_keep_their_order(tmp_path: Path) -> None:
    finished = await run(tmp_path, "echo 1; echo 2 >&2; echo 3", streams=ProcessStreams(merge=True))

    assert (finished.stdout, finished.stderr) == (b"1\n2\n3\n", b"")


async def test_program_sees_only_what_it_is_given_and_the_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    finished = await run(tmp_path, "env")

    seen = dict(line.split("=", 1) for line in finished.stdout.decode().splitlines())
    assert seen["EVALCTL_ATTEMPT"] == MARKER
    assert seen["PYTHONDONTWRITEBYTECODE"] == "1"
    assert seen["HOME"] == str(tmp_path)
    own = {"PWD", "OLDPWD", "SHLVL", "_", "EVALCTL_ATTEMPT", "EVALCTL_PROCESS", "PYTHONDONTWRITEBYTECODE"}
    assert set(seen) - own == {"PATH", "HOME", "TMPDIR", "LANG"}


async def test_program_inherits_no_descriptors(tmp_path: Path) -> None:
    handle = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(handle, True)
    finished = await run(tmp_path, "ls -l /proc/self/fd")
    os.close(handle)

    assert str(tmp_path).encode() not in finished.stdout


@pytest.mark.parametrize("text", [b"", b"x" * 300_000, b"\xff\x00"])
async def test_program_reads_what_it_is_given(tmp_path: Path, text: bytes) -> None:
    finished = await run(tmp_path, "cat", streams=ProcessStreams(stdin=text), output_limit=1_000_000)

    assert finished.stdout == text


async def test_program_that_reads_nothing_is_not_waited_for(tmp_path: Path) -> None:
    finished = await run(tmp_path, "true", streams=ProcessStreams(stdin=b"x" * 3_000_000))

    assert finished.exit_code == 0


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["no-such-program"], "No such file"),
        (["/etc/passwd"], "Permission denied"),
        (["sh", "-c", "a\0b"], "argument"),
        (["sh", "-c", "\ud800"], "argument"),
        ([], "argument"),
        (["sh", "-c", "x" * 5_000_000], "too long"),
    ],
)
async def test_program_that_cannot_start_is_named(tmp_path: Path, argv: list[str], problem: str) -> None:
    with pytest.raises(ProcessNotStarted) as caught:
        await run_process(
            argv,
            cwd=tmp_path,
            environment=build_tool_environment(tmp_path),
            marker=MARKER,
            timeout_s=5,
            output_limit=10,
        )

    assert problem in str(caught.value)
    assert len(str(caught.value)) < 400


async def test_missing_directory_is_told_from_a_missing_program(tmp_path: Path) -> None:
    with pytest.raises(ProcessNotStarted, match="working directory"):
        await run(tmp_path / "gone", "true")


async def test_program_that_nothing_can_be_handed_to_is_not_started(tmp_path: Path) -> None:
    assert (await run(tmp_path, "cat", streams=ProcessStreams(stdin=b"x"))).stdout == b"x"
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
    try:
        with pytest.raises(ProcessNotStarted, match="sh: its input: Too many open files"):
            await run(tmp_path, "cat", streams=ProcessStreams(stdin=b"x"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_timeout_kills_the_command_and_its_child(tmp_path: Path) -> None:
    finished = await run(tmp_path, "sleep 60 & echo $! >> pids; sleep 60", timeout_s=0.5)

    assert finished.timed_out
    assert finished.exit_code is None
    assert len(pids(tmp_path)) == 1
    assert not any(is_alive(pid) for pid in pids(tmp_path))
    assert 400 <= finished.wall_ms < 3000


async def test_cancellation_kills_the_whole_tree(tmp_path: Path) -> None:
    async with anyio.create_task_group() as calls:
        calls.start_soon(run, tmp_path, TREE + "wait")
        await has_lived(tmp_path, 4)
        calls.cancel_scope.cancel()

    assert not any(is_alive(pid) for pid in pids(tmp_path))


async def test_what_a_command_leaves_behind_is_killed_and_counted(tmp_path: Path) -> None:
    script = TREE + "until [ $(wc -l < pids) -ge 4 ]; do sleep 0.05; done"
    finished = await run(tmp_path, script)

    assert finished.exit_code == 0
    assert len(pids(tmp_path)) == 4
    assert not any(is_alive(pid) for pid in pids(tmp_path))
    assert finished.survivors_killed >= 4


async def test_daemon_that_is_still_starting_is_found(tmp_path: Path) -> None:
    for _ in range(5):
        await run(tmp_path, "setsid sh -c 'echo $$ >> pids; exec sleep 300' &")

    assert not any(is_alive(pid) for pid in pids(tmp_path))


async def test_program_that_ignores_term_is_killed_after_the_grace(tmp_path: Path) -> None:
    script = "trap '' TERM; echo $$ >> pids; while :; do :; done"
    begun = anyio.current_time()
    finished = await run(tmp_path, script, timeout_s=0.3, grace_s=0.3)

    assert finished.timed_out
    assert anyio.current_time() - begun < 5
    assert len(pids(tmp_path)) == 1
    assert not is_alive(pids(tmp_path)[0])


async def test_program_may_tidy_up_within_the_grace(tmp_path: Path) -> None:
    finished = await run(tmp_path, "trap 'echo bye; exit 0' TERM; sleep 60 & wait", timeout_s=0.3)

    assert finished.stdout == b"bye\n"


async def test_daemon_that_holds_the_pipe_does_not_hold_the_call(tmp_path: Path) -> None:
    begun = anyio.current_time()
    finished = await run(tmp_path, "setsid sh -c 'echo $$ >> pids; exec sleep 30' & echo done")

    assert finished.stdout == b"done\n"
    assert anyio.current_time() - begun < 2
    assert not any(is_alive(pid) for pid in pids(tmp_path))


async def test_flood_is_capped_and_ends_with_the_timeout(tmp_path: Path) -> None:
    begun = anyio.current_time()
    finished = await run(tmp_path, "head -c 200000000 /dev/zero; sleep 60", timeout_s=1.0, output_limit=32_000)

    assert finished.truncated
    assert finished.timed_out
    assert len(finished.stdout) == 32_000
    assert anyio.current_time() - begun < 3


async def test_limit_is_shared_by_both_streams(tmp_path: Path) -> None:
    finished = await run(tmp_path, "head -c 700 /dev/zero; head -c 700 /dev/zero >&2", output_limit=1000)

    assert finished.truncated
    assert len(finished.stdout) + len(finished.stderr) == 1000


async def test_output_that_just_fits_is_not_called_truncated(tmp_path: Path) -> None:
    finished = await run(tmp_path, "head -c 1000 /dev/zero", output_limit=1000)

    assert not finished.truncated


async def test_character_split_over_two_writes_arrives_whole(tmp_path: Path) -> None:
    finished = await run(tmp_path, r"printf '\303'; sleep 0.2; printf '\244'")

    assert finished.stdout.decode() == "ä"


async def test_calls_of_one_attempt_do_not_end_each_other(tmp_path: Path) -> None:
    results: list[FinishedProcess] = []

    async def one(script: str) -> None:
        results.append(await run(tmp_path, script))

    async with anyio.create_task_group() as calls:
        calls.start_soon(one, "echo $$ >> pids; until [ -e go ]; do sleep 0.02; done; echo long")
        await has_lived(tmp_path, 1)
        await one("setsid sleep 300 &")
        assert is_alive(pids(tmp_path)[0])
        (tmp_path / "go").touch()

    assert [result.stdout for result in results] == [b"", b"long\n"]


@pytest.mark.parametrize("platform", ["linux", "other"])
async def test_system_without_process_handles_is_served_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.setattr(sys, "platform", platform)
    finished = await run(
        tmp_path, "cat; setsid sh -c 'echo $$ >> pids; exec sleep 300' & exit 3", streams=ProcessStreams(stdin=b"x")
    )
    late = await run(tmp_path, "sleep 60", timeout_s=0.2)

    assert finished.exit_code == 3
    assert late.timed_out
    assert not any(is_alive(pid) for pid in pids(tmp_path))


@pytest.mark.parametrize("search", ["bin:{0}", ":{0}", "{0}:", ".:{0}", "bin"])
async def test_no_program_is_taken_from_the_directory_in_which_it_runs(tmp_path: Path, search: str) -> None:
    for place in (tmp_path, tmp_path / "bin"):
        place.mkdir(exist_ok=True)
        for name in ("planted", "sh"):
            (place / name).write_text("#!/bin/sh\necho planted\n")
            (place / name).chmod(0o755)
    environment = {"PATH": search.format(os.defpath)}
    usual: dict[str, Any] = {"cwd": tmp_path, "environment": environment, "marker": "", "timeout_s": 60}
    with pytest.raises(ProcessNotStarted):
        await run_process(["planted"], output_limit=100, **usual)
    finished = await run_process(["sh", "-c", "planted || sh -c 'echo none'"], output_limit=100, **usual)
    assert finished.stdout == b"none\n"


async def test_sweep_kills_the_processes_of_wanted_attempts_only(tmp_path: Path) -> None:
    environment = build_tool_environment(tmp_path)
    dead, other, broken = (
        start(["sleep", "300"], {**environment, "EVALCTL_ATTEMPT": mark})
        for mark in ("sweep-1a2b3c4d/7/1", "sweep-1a2b3c4d/7/2", "sweep-1a2b3c4d/" + "9" * 5000 + "/1")
    )
    try:
        await until(
            lambda: all(Path(f"/proc/{p.pid}/cmdline").read_bytes().startswith(b"sleep") for p in (dead, other))
        )
        killed = kill_marked_processes(
            lambda sweep, position, attempt: (sweep, position, attempt) == ("sweep-1a2b3c4d", 7, 1)
        )

        assert killed == 1
        assert dead.wait(5) == -signal.SIGKILL
        assert other.poll() is None
        assert broken.poll() is None
    finally:
        for process in (dead, other, broken):
            process.kill()
            process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a program to its parent")
async def test_program_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    source = f"""
import anyio, pathlib, sys
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from providers.system.process import run_process, build_tool_environment
here = pathlib.Path({str(tmp_path)!r})
anyio.run(lambda: run_process(["sh", "-c", "echo $$ >> pids; exec sleep 300"], cwd=here,
    environment=build_tool_environment(here), marker="", timeout_s=300, output_limit=10))
"""
    harness = start([sys.executable, "-c", source])
    try:
        await has_lived(tmp_path, 1)
    finally:
        harness.kill()
        harness.wait()

    await until(lambda: not is_alive(pids(tmp_path)[0]))
