"""World: clocks, ids, randomness and environment of this process.

Only this module and `providers/system/process.py` read them. All other code takes them as arguments, so that a test can
set the time.
"""

from __future__ import annotations

import os
import random
import time  # noqa: TID251 - this is the place
from collections.abc import Callable, Mapping

import attrs

from store.rows import WorkerRow

_PR_SET_DUMPABLE = 4
_NOT_RUNNING: tuple[list[str], ...] = ([], ["T"], ["t"], ["Z"], ["X"])
"""States of a process that cannot run: unknown, stopped, traced, or ended."""


@attrs.frozen(kw_only=True)
class World:
    """Clocks, environment and randomness, as arguments for all other code."""

    wall: Callable[[], int]
    """Microseconds since 1970 UTC."""
    monotonic: Callable[[], float]
    """Seconds; only differences have a meaning. Does not run while the machine sleeps."""
    environment: Mapping[str, str]
    rng: random.Random
    """For jitter. Run orders come from seeds of their own."""


def real_world() -> World:
    """Return the clocks of this machine and the environment of this process."""
    return World(
        wall=lambda: time.time_ns() // 1000,
        monotonic=time.monotonic,
        environment=dict(os.environ),  # noqa: TID251 - this is the place
        rng=random.Random(),  # noqa: S311 - jitter, not secrets; it seeds itself from the system
    )


def sweep_name(wall_us: int) -> str:
    """Make a unique name that sorts by time: 20261130T101500Z-1a2b3c4d."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(wall_us // 1_000_000))
    return f"{stamp}-{os.urandom(4).hex()}"


def current_user() -> str:
    """Return the user of this process as user@host."""
    import pwd  # noqa: PLC0415 - only commands to a sweep need it

    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return f"{user}@{os.uname().nodename}"


def boot_id() -> str:
    """Read the id of this boot of the machine; empty if the kernel provides none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123 - a kernel file
            return file.read().strip()
    except OSError:
        return ""


def process_start_ticks(pid: int) -> int:
    """Read the start time of a process in clock ticks since boot; 0 if it is gone or the kernel provides none."""
    fields = _read_process_fields(pid)
    return int(fields[19]) if len(fields) > 19 and fields[19].isdecimal() else 0


def _read_process_fields(pid: int) -> list[str]:
    """Read the fields of /proc/PID/stat from the state on; empty if the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - a kernel file
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def pid_namespace() -> int:
    """Read the inode of this process's PID namespace, within which process ids are unique; 0 if the kernel has none."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116 - a kernel file
    except OSError:
        return 0


def this_worker(version: str, wall_us: int) -> WorkerRow:
    """Return the row that identifies this process: boot id and PID namespace, pid, and start time."""
    pid = os.getpid()
    return WorkerRow(
        host=os.uname().nodename,
        pid=pid,
        boot=f"{boot_id()}/{pid_namespace()}",
        born=process_start_ticks(pid),
        version=version,
        started_at=wall_us,
    )


def is_alive(worker: WorkerRow) -> bool | None:
    """Return whether a worker's process still runs; None if this process cannot see it.

    It sees the processes of its own host and PID namespace; those of an earlier boot have ended. A host name alone says
    little: containers may share it. A worker stored without a namespace is judged by its host and boot.
    """
    if worker.host != os.uname().nodename:
        return None
    boot, separator, namespace = worker.boot.partition("/")
    if separator and (not boot or namespace in ("", "0") or namespace != str(pid_namespace())):
        return None
    if boot and boot != boot_id():
        return False
    try:
        os.kill(worker.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not worker.born or process_start_ticks(worker.pid) in (0, worker.born)


def is_running(worker: WorkerRow) -> bool:
    """Return whether a worker's process is known to run and is not stopped: then its lease holds whatever the clock."""
    return "/" in worker.boot and is_alive(worker) is True and _read_process_fields(worker.pid)[:1] not in _NOT_RUNNING


def hide_environment() -> None:
    """Keep other processes of this user, such as the tools of a run, from reading this process's environment.

    The environment contains credentials. The kernel only does this on Linux, and not against root.
    """
    import ctypes  # noqa: PLC0415 - slow to import, and only processes that execute runs need it

    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
