"""What `evalctl ci` costs by itself, over all bundled cassettes: without the programs that tools and checks run."""

from __future__ import annotations

import statistics
import subprocess
import tempfile

from benchmarks.bed import Bed
from benchmarks.child import PYTHON, ROOT
from benchmarks.lines import Line, Size, note

FIXED_S, EACH_S = 0.9, 0.02
PROGRAM = """
import atexit, resource, sys
sys.argv = ["evalctl", "ci", "--out", sys.argv[1]]
atexit.register(lambda: print(sum(resource.getrusage(resource.RUSAGE_SELF)[:2])))
from orchestrator.cli.main import main
main()
"""


def replaying(bed: Bed, size: Size) -> list[Line]:
    """CPU of the process itself, its forks included."""
    cassettes = len(list((ROOT / "suites").glob("*/cassettes/*.jsonl")))
    goal = FIXED_S + EACH_S * cassettes
    note(f"ci: {cassettes} cassettes")
    took = statistics.median(_own_cpu_s(bed) for _ in range(2 * size.rounds + 1))
    return [
        Line(
            number=16,
            what=f"evalctl ci, {cassettes} cassettes, CPU of its own",
            goal=f"<= {goal:.1f} s",
            evalctl=f"{took:.2f} s",
            kept=took <= goal,
        )
    ]


def _own_cpu_s(bed: Bed) -> float:
    with tempfile.TemporaryDirectory(dir=bed.folder) as out:
        argv = [PYTHON, "-c", PROGRAM, out]
        said = subprocess.run(argv, env=bed.environment, cwd=ROOT, check=True, capture_output=True, text=True)
    return float(said.stdout.splitlines()[-1])
