from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from orchestrator.world import (
    boot_id,
    is_alive,
    is_running,
    pid_namespace,
    process_start_ticks,
    sweep_name,
    this_worker,
)
from store.rows import WorkerRow

ROOT = Path(__file__).parents[2]
ME = this_worker("test", 1)
BOOT, NAMESPACE = ME.boot.split("/")
FOREIGN_NAMESPACE = str(int(NAMESPACE) + 1)
PRINT_WORKER = """
from orchestrator.world import this_worker
import sys
print(*this_worker("test", 1).boot.split("/"), this_worker("test", 1).pid, this_worker("test", 1).born, flush=True)
sys.stdin.readline()
"""


def test_two_hundred_sweeps_of_one_second_have_two_hundred_names() -> None:
    names = [sweep_name(1_796_000_000_000_000 + microsecond) for microsecond in range(200)]
    assert len(set(names)) == 200
    assert {name.rpartition("-")[0] for name in names} == {names[0].rpartition("-")[0]}


def test_worker_is_known_by_boot_namespace_pid_and_start_time() -> None:
    assert ME.boot == f"{boot_id()}/{pid_namespace()}"
    assert (ME.pid, ME.born) == (os.getpid(), process_start_ticks(os.getpid()))
    assert pid_namespace() == Path("/proc/self/ns/pid").stat().st_ino


@pytest.mark.parametrize(
    ("changes", "alive"),
    [
        ({}, True),
        ({"born": ME.born - 1}, False),  # the pid was given to another process
        ({"born": 0}, True),
        ({"boot": f"{BOOT}/{FOREIGN_NAMESPACE}"}, None),
        ({"boot": f"{BOOT}/{FOREIGN_NAMESPACE}", "born": ME.born - 1}, None),
        ({"boot": f"{BOOT}/0"}, None),
        ({"boot": f"{BOOT}/"}, None),
        ({"boot": f"/{NAMESPACE}"}, None),
        ({"boot": "/"}, None),
        ({"boot": f"another-boot/{NAMESPACE}"}, False),
        ({"boot": f"another-boot/{FOREIGN_NAMESPACE}"}, None),
        ({"host": "elsewhere"}, None),
        ({"boot": BOOT}, True),  # of an evalctl that stored no namespace
        ({"boot": BOOT, "born": ME.born - 1}, False),
        ({"boot": "another-boot"}, False),
        ({"boot": ""}, True),
    ],
)
def test_worker_is_judged_only_where_its_processes_can_be_seen(changes: dict[str, Any], alive: bool | None) -> None:
    worker = attrs.evolve(ME, **changes)
    assert is_alive(worker) is alive
    assert is_running(worker) is (alive is True and "/" in worker.boot)


@pytest.fixture
def other() -> Iterator[tuple[subprocess.Popen[str], WorkerRow]]:
    with subprocess.Popen(
        [sys.executable, "-c", PRINT_WORKER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        boot, namespace, pid, born = process.stdout.readline().split()
        yield process, attrs.evolve(ME, boot=f"{boot}/{namespace}", pid=int(pid), born=int(born))
        process.kill()


def test_stopped_process_is_alive_and_not_running(other: tuple[subprocess.Popen[str], WorkerRow]) -> None:
    process, worker = other
    assert (is_alive(worker), is_running(worker)) == (True, True)
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    assert (is_alive(worker), is_running(worker)) == (True, False)
    process.send_signal(signal.SIGCONT)
    os.waitid(os.P_PID, process.pid, os.WCONTINUED)
    assert (is_alive(worker), is_running(worker)) == (True, True)
    process.kill()
    process.wait()
    assert (is_alive(worker), is_running(worker)) == (False, False)


def test_worker_of_another_pid_namespace_is_unknown_though_its_pid_means_another_process_here() -> None:
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine allows no PID namespaces")
    with subprocess.Popen(
        [*unshare, sys.executable, "-c", PRINT_WORKER],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        boot, namespace, pid, born = process.stdout.readline().split()
        assert (boot, pid) == (BOOT, "1")
        assert namespace != NAMESPACE
        worker = attrs.evolve(ME, boot=f"{boot}/{namespace}", pid=int(pid), born=int(born))
        assert (is_alive(worker), is_running(worker)) == (None, False)
        process.communicate("\n")
