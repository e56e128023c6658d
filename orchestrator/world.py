"""The world outside: clocks, ids, randomness, environment.

Beside `providers/system/process.py`, the one module that may read them.

Everything else takes these as arguments, so that a test can say what time it is.
"""

from __future__ import annotations

import os
import random
import time  # noqa: TID251 - this is the place
from collections.abc import Callable, Mapping

import attrs

from store.rows import WorkerRow

_PR_SET_DUMPABLE = 4


@attrs.frozen(kw_only=True)
class World:
    """What a process may know of its surroundings."""

    wall: Callable[[], int]
    """Microseconds since 1970 UTC."""
    monotonic: Callable[[], float]
    """Seconds; only differences mean something. Does not run while the machine sleeps."""
    environment: Mapping[str, str]
    rng: random.Random
    """For jitter. Orders come from seeds of their own."""


def real_world() -> World:
    """The clocks of this machine and the environment of this process."""
    return World(
        wall=lambda: time.time_ns() // 1000,
        monotonic=time.monotonic,
        environment=dict(os.environ),  # noqa: TID251 - this is the place
        rng=random.Random(),  # noqa: S311 - jitter, not secrets; it seeds itself from the system
    )


def sweep_name(wall_us: int) -> str:
    """A name that sorts by time and never repeats: 20261130T101500Z-1a2b3c4d."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(wall_us // 1_000_000))
    return f"{stamp}-{os.urandom(4).hex()}"


def current_user() -> str:
    """The person at this terminal, as far as the system knows: user@host."""
    import pwd

    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return f"{user}@{os.uname().nodename}"


def boot_id() -> str:
    """An id that changes with every boot of this machine; empty where the kernel tells none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123 - a kernel file
            return file.read().strip()
    except OSError:
        return ""


def process_start_ticks(pid: int) -> int:
    """When the process was started, in clock ticks since boot; 0 where the kernel does not tell or it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - a kernel file
            return int(file.read().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def this_worker(version: str, wall_us: int) -> WorkerRow:
    """What this process is recognised by."""
    pid = os.getpid()
    return WorkerRow(
        host=os.uname().nodename,
        pid=pid,
        boot=boot_id(),
        born=process_start_ticks(pid),
        version=version,
        started_at=wall_us,
    )


def is_alive(worker: WorkerRow) -> bool | None:
    """Whether a worker's process still runs; None where this machine cannot know (another host)."""
    if worker.host != os.uname().nodename:
        return None
    if worker.boot and worker.boot != boot_id():
        return False
    try:
        os.kill(worker.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not worker.born or process_start_ticks(worker.pid) in (0, worker.born)


def hide_environment() -> None:
    """Keep what this user's other processes run from reading this one's environment, credentials included.

    The kernel does so where it can: on Linux, and not against root. The tools of a run are such processes.
    """
    import ctypes

    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
