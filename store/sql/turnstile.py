"""The turnstile: an exclusive file lock beside the store, held by one process at a time.

Held around every commit, checkpoint, first open and migration. It makes simultaneous first opens safe, keeps the
longest commit short when many processes write, and separates the commits and checkpoints of different connections:
without that, SQLite before 3.51.3 may lose pages.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from store.errors import StoreRefused, StoreStalled

MIN_PAUSE_S = 0.001
MAX_PAUSE_S = 0.020
REPORT_AFTER_S = 5.0
HOLDER_LINE_BYTES = 128
"""Length in bytes of the line that names the holder; fixed, so that one write replaces it."""


class Turnstile:
    """One process's handle on the lock file of a store.

    Args:
        store: the store's file, by any name; the lock is `<store>.lock` beside the file that links lead to.
        report: called once per wait that takes longer than *report_after_s*, with a sentence that names the holder.
        max_stall_s: longest wait in seconds.
        report_after_s: see *report*.
    """

    def __init__(
        self,
        store: Path,
        *,
        report: Callable[[str], None],
        max_stall_s: float = 600.0,
        report_after_s: float = REPORT_AFTER_S,
    ) -> None:
        self.store = store
        self.lock = Path(f"{os.path.realpath(store)}.lock")
        """The lock file: one per store, also for processes that name the store by different links."""
        self._report = report
        self._max_stall_s = max_stall_s
        self._report_after_s = report_after_s
        self._hurried_at = 0.0
        self._hurry_s: float | None = None
        self._fd: int | None = None
        self._held = False
        self._kept = False
        me = json.dumps({"pid": os.getpid(), "host": socket.gethostname()[:64]}, separators=(",", ":"))
        self._line = me.encode().ljust(HOLDER_LINE_BYTES - 1) + b"\n"

    def __repr__(self) -> str:
        return f"<Turnstile {self.store}: {'held' if self._held else 'free'}>"

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Hold the lock, waiting without blocking the event loop; release it at the end, or earlier by `release`.

        Raises:
            StoreStalled: another process held it for longer than `max_stall_s`.
            StoreRefused: the lock file cannot be made.
        """
        if not self.try_enter():
            await self._wait_to_enter()
        try:
            yield
        finally:
            self.release()

    def try_enter(self) -> bool:
        """Take the lock if it is free. Never blocks.

        Raises:
            StoreRefused: the lock file cannot be made.
        """
        if self._kept:
            self._held = True
            return True
        assert not self._held, "one holder at a time within a process"
        if self._fd is None:
            self._fd = self._open_lock_file()
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES, errno.EINTR):
                return False
            raise StoreRefused(str(self.lock), f"cannot be locked: {error.strerror}") from error
        self._held = True
        # The line only informs waiting processes: a full disk must not matter here.
        with suppress(OSError):
            os.pwrite(self._fd, self._line, 0)
        return True

    def release(self) -> None:
        """Release the lock, if held. May be called from the thread that has just committed."""
        if self._held:
            self._held = False
            if not self._kept and self._fd is not None:
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def keep_until_close(self) -> None:
        """Keep the lock until `close`: on a network file system only one process may write. Call it while held."""
        assert self._held
        self._kept = True

    def limit_waits(self, seconds: float) -> None:
        """Limit every wait, also the current one, to *seconds* from now on, because the process is ending."""
        import anyio  # noqa: PLC0415 - start-up: only running needs an event loop

        self._hurried_at = anyio.current_time()
        self._hurry_s = seconds

    def close(self) -> None:
        """Release the lock and close the file."""
        self._kept = self._held = False
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def describe_holder(self) -> str:
        """Describe the holder for a message: `process 4711 (stopped)`, `process 12 on otherhost`."""
        try:
            with self.lock.open("rb") as file:
                line = json.loads(file.read(HOLDER_LINE_BYTES))
            pid, host = int(line["pid"]), str(line["host"])
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"
        if host != socket.gethostname()[:64]:
            return f"process {pid} on {host}"
        return f"process {pid}{' (stopped)' if _is_stopped(pid) else ''}"

    async def _wait_to_enter(self) -> None:
        import anyio  # noqa: PLC0415 - start-up: only running needs an event loop

        begun = anyio.current_time()
        pause, reported = MIN_PAUSE_S, False
        while not self.try_enter():
            now = anyio.current_time()
            waited = now - begun
            hurried = self._hurry_s is not None and now - max(begun, self._hurried_at) > self._hurry_s
            if waited > self._max_stall_s or hurried:
                raise StoreStalled(str(self.store), self.describe_holder(), waited)
            if not reported and waited > self._report_after_s:
                reported = True
                self._report(f"{self.store}: waiting for {self.describe_holder()}, which is writing to the store")
            await anyio.sleep(pause)
            pause = min(pause * 2, MAX_PAUSE_S)

    def _open_lock_file(self) -> int:
        try:
            return os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreRefused(str(self.lock), f"cannot be opened for writing: {error.strerror}") from error


def _is_stopped(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[:1] in (["T"], ["t"])
