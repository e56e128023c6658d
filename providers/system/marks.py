"""Marks in the environment of processes, and the reaper that kills whatever bears one.

A mark is inherited by every descendant that does not take it out of its environment, whatever session, group or
parent it ends up with. Works on Linux, where /proc shows the environment a process was started with; elsewhere
nothing is found.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence

ATTEMPT_VARIABLE = "EVALCTL_ATTEMPT"
"""For which attempt a process works: SWEEP/POSITION/ATTEMPT."""
PROCESS_VARIABLE = "EVALCTL_PROCESS"
"""Which call started it; unique."""

HOME = "evalctl-home-"
"""How the names of homes begin that programs get."""
PASSES = 70
"""After how many passes a reaper gives up: some 3 s of pauses. What still lives then cannot be killed."""

DOUBTS = 4
"""How many passes in a row may follow on suspicion alone: on a busy machine something always ends or starts."""

_PF_KTHREAD = 0x0020_0000

Matches = Callable[[bytes], bool]
"""Decides on an environment, given as its entries with a NUL before and after each."""


def home_of(attempt: str) -> str:
    """How the name of a home begins that a program gets which works for *attempt*: SWEEP/POSITION/ATTEMPT."""
    return f"{HOME}{attempt.replace('/', '.')}-"


def for_process(token: str) -> Matches:
    """Those that one call of `run_process` started, and their descendants."""
    needle = f"\0{PROCESS_VARIABLE}={token}\0".encode()
    return lambda environment: needle in environment


def for_attempt(wanted: Callable[[str, int, int], bool]) -> Matches:
    """Those that work for an attempt (sweep, position, number) that is *wanted*."""

    def matches(environment: bytes) -> bool:
        _, found, rest = environment.partition(f"\0{ATTEMPT_VARIABLE}=".encode())
        sweep, _, numbers = rest.partition(b"\0")[0].decode("utf-8", "replace").partition("/")
        position, _, attempt = numbers.partition("/")
        if not found or any(len(text) > 18 or not text.isdecimal() for text in (position, attempt)):
            return False
        return wanted(sweep, int(position), int(attempt))

    return matches


class Reaper:
    """Kills every process whose environment matches, pass by pass, until a pass finds none."""

    def __init__(self, matches: Matches, *, leader: int = 0) -> None:
        """*leader* is the process whose descendants are meant, where there is one; it is older than they are."""
        self.killed: set[int] = set()
        """Process ids, the leader's included."""
        self._matches = matches
        self._leader = leader
        self._doubtful = {leader}
        self._alive = False

    def passes(self) -> Iterator[float]:
        """One pass per step; yields the seconds to let pass before the next."""
        pause = 0.001
        doubts = 0
        for _ in range(PASSES):
            known = len(self.killed)
            if not self._once():
                return
            doubts = 0 if len(self.killed) > known else doubts + 1
            if doubts > DOUBTS and not self._alive:
                return
            yield pause
            pause = min(pause * 2, 0.05)

    def _once(self) -> bool:
        """Kill what can be found; whether another pass is needed."""
        found: set[int] = set()
        again = False
        for pid in _processes().difference(_kernel_threads()):
            environment = _environment(pid)
            if environment and self._matches(environment):
                found.add(pid)
            elif not environment and _is_becoming_a_program(pid):
                again = True
            elif not environment and pid > self._leader and pid not in self._doubtful:
                # It ended while we looked, and may have left a child that the listing did not hold yet.
                self._doubtful.add(pid)
                again = True
        for pid in found:
            self._kill(pid)
        self.killed |= found
        self._alive = bool(found)
        return again or bool(found)

    def _kill(self, pid: int) -> None:
        """Kill the process and its group, which no other than its relatives can have joined."""
        try:
            handle = os.pidfd_open(pid)
        except (AttributeError, OSError):  # it is gone, or the kernel has no such handles
            handle = None
        try:
            # Once more, now that the handle keeps pointing at this very process.
            if self._matches(_environment(pid) or b""):
                group = os.getpgid(pid)
                if handle is None:
                    os.kill(pid, signal.SIGKILL)
                else:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                if group > 1 and group != os.getpgrp():
                    signal_group(group, signal.SIGKILL)
        except OSError:  # it has gone in the meantime, or belongs to somebody else
            return
        finally:
            if handle is not None:
                os.close(handle)


def signal_group(group: int, what: signal.Signals) -> None:
    """Send a signal to a process group; one that is gone or not ours is let be."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, what)


def _processes() -> set[int]:
    """The processes there are, without this one; none where there is no /proc."""
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - names are all that is needed, and this runs often
    except OSError:
        return set()
    return {int(name) for name in names if name.isdecimal()} - {os.getpid()}


def _kernel_threads() -> list[int]:
    """Most of the kernel's threads, which are mostly most of what /proc lists: the children of its second process.

    Nothing is lost where they cannot be asked for, or where the second process is one of a container: then each of
    them is looked at.
    """
    if not _is_kernels(_stat(2)):
        return []
    try:
        handle = os.open("/proc/2/task/2/children", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return [int(pid) for pid in os.read(handle, 1 << 20).split()]
        finally:
            os.close(handle)
    except (OSError, ValueError):
        return []


def _environment(pid: int) -> bytes | None:
    """The environment a process was started with, between NULs; empty where there is none (a zombie, a thread of the
    kernel, another user's process); None where it is gone.
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
    """Whether a process without environment is on its way through exec: the old one is gone, the new one not set."""
    stat = _stat(pid)
    try:
        state, environment_end = stat[0], int(stat[48])
    except (IndexError, ValueError):
        return False
    return state not in (b"Z", b"X") and not _is_kernels(stat) and environment_end == 0


def _is_kernels(stat: Sequence[bytes]) -> bool:
    try:
        return bool(int(stat[6]) & _PF_KTHREAD)
    except (IndexError, ValueError):
        return False


def _stat(pid: int) -> list[bytes]:
    """What the kernel says of a process, from its state on; empty where it is gone."""
    try:
        handle = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(handle, 4096).rpartition(b")")[2].split()
        finally:
            os.close(handle)
    except OSError:
        return []
