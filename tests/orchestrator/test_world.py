import subprocess
import sys

import pytest

from orchestrator.world import born, is_alive, this_worker

LOOK = """
import ctypes, os
from orchestrator.world import conceal
conceal()
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))  # PR_GET_DUMPABLE
print(os.stat(f"/proc/{os.getpid()}/environ").st_uid)
"""


def test_a_concealed_process_keeps_its_environment_to_itself_and_root():
    told = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True, cwd=".")
    dumpable, owner = told.stdout.split()
    assert dumpable == "0"
    assert owner == "0"


def test_this_process_is_alive_and_one_that_ended_is_not():
    mine = this_worker("v", 1)
    assert is_alive(mine) is True
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert is_alive(_with(mine, pid=ended.pid, born=1)) is False


def test_a_pid_that_was_given_to_another_process_does_not_pass_for_the_worker():
    mine = this_worker("v", 1)
    assert is_alive(_with(mine, born=mine.born + 1)) is False


def test_a_worker_of_an_earlier_boot_is_dead_and_one_of_another_machine_unknown():
    mine = this_worker("v", 1)
    assert is_alive(_with(mine, boot="another")) is False
    assert is_alive(_with(mine, host="another")) is None


@pytest.mark.parametrize("pid", [0, 2**22 + 1])
def test_what_is_no_process_was_never_born(pid):
    assert born(pid) == 0


def _with(worker, **changes):
    import attrs

    return attrs.evolve(worker, **changes)
