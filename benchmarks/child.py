"""A child process and what it cost: CPU as the kernel counts it, wall time, and its largest resident size."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time  # noqa: TID251 - a benchmark measures wall time
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[1]
PYTHON = sys.executable
EVALCTL = str(Path(sys.executable).with_name("evalctl"))


@attrs.frozen(kw_only=True)
class Cost:
    """What one child cost, with everything it waited for."""

    cpu_s: float
    """User and system, of the child and of the children it has reaped."""
    wall_s: float
    rss_kib: int
    code: int


def measure(
    argv: Sequence[str], environment: Mapping[str, str], *, cwd: Path = ROOT, codes: Sequence[int] = (0,)
) -> Cost:
    """Run a child to its end.

    Raises:
        RuntimeError: it left with another code than *codes*; the message holds the end of its stderr.
    """
    log = cwd / "child.stderr" if cwd != ROOT else Path(os.devnull)
    with log.open("wb") as stderr:
        begun = time.monotonic()
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr, cwd=cwd, env=dict(environment)
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - begun
    process.returncode = code = os.waitstatus_to_exitcode(status)
    if code not in codes:
        said = log.read_text(encoding="utf-8", errors="replace")[-2000:] if log.name != "null" else ""
        raise RuntimeError(f"{' '.join(argv)} left with {code}: {said}")
    return Cost(cpu_s=usage.ru_utime + usage.ru_stime, wall_s=wall, rss_kib=usage.ru_maxrss, code=code)


def median_cpu(costs: Sequence[Cost]) -> float:
    return statistics.median(cost.cpu_s for cost in costs)
