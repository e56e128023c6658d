"""A disk that can be filled up and given space again: a small tmpfs where we may mount one, else a limit on file sizes.

The limit (RLIMIT_FSIZE) stands in for a full disk at the writer alone: SQLite meets EFBIG where it would meet ENOSPC.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import attrs

SMALL = 1 << 20
ROOMY = 256 << 20


@attrs.define
class SmallDisk:
    """A folder with little room."""

    path: Path
    kind: str
    """`tmpfs`, or `RLIMIT_FSIZE`."""
    prefix: tuple[str, ...] = ()
    """What goes before a command that is to meet the limit."""

    def fill(self) -> None:
        """Leave no room for anybody."""
        if self.kind != "tmpfs":
            self.prefix = ("prlimit", f"--fsize={self._largest()}")
            return
        with (self.path / "ballast").open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * 4096)

    def give_space(self) -> None:
        """Somebody has cleaned up."""
        self.prefix = ()
        if self.kind == "tmpfs":
            (self.path / "ballast").unlink(missing_ok=True)
            subprocess.run(["mount", "-o", f"remount,size={ROOMY}", self.path], check=True)

    def _largest(self) -> int:
        return max((file.stat().st_size for file in self.path.rglob("*") if file.is_file()), default=4096)


@contextlib.contextmanager
def small_disk(path: Path) -> Iterator[SmallDisk]:
    """Make it at *path*, and unmount it at the end."""
    path.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(path)]
    mounted = os.geteuid() == 0 and subprocess.run(argv, check=False, capture_output=True).returncode == 0
    try:
        if mounted:
            yield SmallDisk(path, "tmpfs")
        else:
            yield SmallDisk(path, "RLIMIT_FSIZE", ("prlimit", f"--fsize={SMALL}"))
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=True)
