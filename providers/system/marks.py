"""Process marks (environment variables), and a reaper that kills all processes with a given mark.

Every descendant inherits a mark, whatever its session, process group or parent, unless it removes it from its
environment. Works on Linux, where /proc shows the environment of a process; elsewhere no process is found.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence

ATTEMPT_VARIABLE = "EVALCTL_ATTEMPT"
"""The attempt of a process: SWEEP/POSITION/ATTEMPT."""
PROCESS_VARIABLE = "EVALCTL_PROCESS"
"""The call of `run_process` that started a process; unique."""

HOME_PREFIX = "evalctl-home-"
"""Prefix of the names of HOME directories for programs."""
MAX_PASSES = 70
"""Passes after which a reaper gives up, about 3 s of pauses. Processes still alive then cannot be killed."""

MAX_DOUBTFUL_PASSES = 4
"""Passes in a row on suspicion alone: on a busy machine some process always starts or ends."""

_PF_KTHREAD = 0x0020_0000

EnvironmentMatcher = Callable[[bytes], bool]
"""Tests an environment, given as entries with a NUL before and after each."""


def build_home_prefix(attempt: str) -> str:
    """Prefix of the name of a HOME directory for *attempt*: SWEEP/POSITION/ATTEMPT."""
    return f"{HOME_PREFIX}{attempt.replace('/', '.')}-"


def match_process(token: str) -> EnvironmentMatcher:
    """Match the processes that one call of `run_process` started, with their descendants."""
    needle = f"\0{PROCESS_VARIABLE}={token}\0".encode()
    return lambda environment: needle in environment


def match_attempt(wanted: Callable[[str, int, int], bool]) -> EnvironmentMatcher:
    """Match the processes of an attempt (sweep, position, number) that is *wanted*."""

    def matches_attempt(environment: bytes) -> bool:
        _, separator, rest = environment.partition(f"\0{ATTEMPT_VARIABLE}=".encode())
        sweep, _, numbers = rest.partition(b"\0")[0].decode("utf-8", "replace").partition("/")
        position, _, attempt = numbers.partition("/")
        if not separator or any(len(text) > 18 or not text.isdecimal() for text in (position, attempt)):
            return False
        return wanted(sweep, int(position), int(attempt))

    return matches_attempt


class Reaper:
    """Kills all processes whose environment matches, in passes, until a pass finds none."""

    def __init__(self, matches: EnvironmentMatcher, *, leader: int = 0) -> None:
        """*leader*: id of the process whose descendants are meant, if any; their ids are larger."""
        self.killed: set[int] = set()
        """Ids of killed processes, including the leader's."""
        self._matches = matches
        self._leader = leader
        self._doubtful = {leader}
        self._alive = False

    def run_passes(self) -> Iterator[float]:
        """Run one pass per step; yields the seconds to wait before the next."""
        pause = 0.001
        doubts = 0
        for _ in range(MAX_PASSES):
            known = len(self.killed)
            if not self._run_pass():
                return
            doubts = 0 if len(self.killed) > known else doubts + 1
            if doubts > MAX_DOUBTFUL_PASSES and not self._alive:
                return
            yield pause
            pause = min(pause * 2, 0.05)

    def _run_pass(self) -> bool:
        """Kill all matching processes; returns True if another pass is needed."""
        matching: set[int] = set()
        again = False
        for pid in _list_processes().difference(_list_kernel_threads()):
            environment = _read_environment(pid)
            if environment and self._matches(environment):
                matching.add(pid)
            elif not environment and _is_becoming_a_program(pid):
                again = True
            elif not environment and pid > self._leader and pid not in self._doubtful:
                # It ended during the pass and may have left a child that the listing does not contain.
                self._doubtful.add(pid)
                again = True
        for pid in matching:
            self._kill_process(pid)
        self.killed |= matching
        self._alive = bool(matching)
        return again or bool(matching)

    def _kill_process(self, pid: int) -> None:
        """Kill the process and its process group, which only its relatives can have joined."""
        try:
            handle = os.pidfd_open(pid)
        except (AttributeError, OSError):  # the process has ended, or the kernel has no pidfds
            handle = None
        try:
            # Checked again, now that the pidfd is bound to this very process.
            if self._matches(_read_environment(pid) or b""):
                group = os.getpgid(pid)
                if handle is None:
                    os.kill(pid, signal.SIGKILL)
                else:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                if group > 1 and group != os.getpgrp():
                    signal_group(group, signal.SIGKILL)
        except OSError:  # it has ended in the meantime, or belongs to another user
            return
        finally:
            if handle is not None:
                os.close(handle)


def signal_group(group: int, sent: signal.Signals) -> None:
    """Send a signal to a process group; ignore a group that has ended or belongs to another user."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, sent)


def _list_processes() -> set[int]:
    """The ids of all processes but this one; empty without /proc."""
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - names are all that is needed, and this runs often
    except OSError:
        return set()
    return {int(name) for name in names if name.isdecimal()} - {os.getpid()}


def _list_kernel_threads() -> list[int]:
    """Ids of most kernel threads: the children of process 2. They are usually the majority of all processes in /proc.

    An optimisation only: if they cannot be listed, or process 2 is an ordinary process in a container, the reaper looks
    at each of them.
    """
    if not _is_kernel_thread(_read_stat(2)):
        return []
    try:
        handle = os.open("/proc/2/task/2/children", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return [int(pid) for pid in os.read(handle, 1 << 20).split()]
        finally:
            os.close(handle)
    except (OSError, ValueError):
        return []


def _read_environment(pid: int) -> bytes | None:
    """The initial environment of a process, between NULs; empty for a zombie, a kernel thread or another user's
    process; None if the process has ended.
    """
    try:
        handle = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        return b"\0"
    except OSError:
        return None
    try:
        pieces = [b"\0"]
        while piece := os.read(handle, 1 << 20):
            pieces.append(piece)
        return b"".join([*pieces, b"\0"]) if len(pieces) > 1 else b""
    except OSError:
        return None
    finally:
        os.close(handle)


def _is_becoming_a_program(pid: int) -> bool:
    """True if a process without environment is inside exec: the old environment is gone, the new one is not set."""
    stat = _read_stat(pid)
    try:
        state, environment_end = stat[0], int(stat[48])
    except (IndexError, ValueError):
        return False
    return state not in (b"Z", b"X") and not _is_kernel_thread(stat) and environment_end == 0


def _is_kernel_thread(stat: Sequence[bytes]) -> bool:
    try:
        return bool(int(stat[6]) & _PF_KTHREAD)
    except (IndexError, ValueError):
        return False


def _read_stat(pid: int) -> list[bytes]:
    """The fields of /proc/PID/stat from the state on; empty if the process has ended."""
    try:
        handle = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(handle, 4096).rpartition(b")")[2].split()
        finally:
            os.close(handle)
    except OSError:
        return []
