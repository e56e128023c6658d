"""What `evalctl compare` costs on two large sweeps, by running the installed command.

    python -m benchmarks.comparing [--tasks 2000] [--k 20]

Memory is read at a quarter of the repetitions, too: what is kept for a run is its time of work, eight bytes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from benchmarks.child import EVALCTL, PYTHON, Cost, measure, median_cpu

ROUNDS = 3
GOAL_CPU_S = 1.0
GENERATE = """
from pathlib import Path
from tests.store.generate import Shape, generate
generate(Path({path!r}), Shape(cases={cases}, variants=1, repetitions={k}, sweeps=3, events=0))
"""


def compared(folder: Path, tasks: int, k: int, *flags: str) -> list[Cost]:
    """The command, on two whole sweeps; the third, which the generator leaves half done, is not looked at."""
    path = folder / f"{k}.db"
    if not path.exists():
        # in a process of its own: a child's peak counts what its parent was when it was made
        measure([PYTHON, "-c", GENERATE.format(path=str(path), cases=tasks, k=k)], os.environ)  # noqa: TID251 - handed to the child
    argv = [EVALCTL, "--store", str(path), "compare", "00000", "00001", *flags]
    return [measure(argv, os.environ, cwd=folder) for _ in range(ROUNDS)]  # noqa: TID251 - handed to the child


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.comparing")
    parser.add_argument("--tasks", type=int, default=2_000)
    parser.add_argument("--k", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evalctl-comparing-") as name:
        folder = Path(name)
        few = max(1, options.k // 4)
        print(f"{options.tasks:,} tasks, CPU s and resident MiB (k {few} and k {options.k})")
        for flags in ((), ("--json",), ("--detail",)):
            small, large = (compared(folder, options.tasks, k, *flags) for k in (few, options.k))
            cpu = median_cpu(large)
            kept = (
                "" if flags == ("--detail",) else f"   goal {GOAL_CPU_S:g}: {'kept' if cpu < GOAL_CPU_S else 'missed'}"
            )
            rss = [max(cost.rss_kib for cost in costs) / 1024 for costs in (small, large)]
            print(f"compare {' '.join(flags):<10}{cpu:>7.2f} s{rss[0]:>8.0f} {rss[1]:>5.0f} MiB{kept}")


if __name__ == "__main__":
    main()
