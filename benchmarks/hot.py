"""Where a sweep's CPU goes: a profile of one run of the command, for goals that are missed.

    python -m benchmarks.hot [--runs N] [--http] [--lines N]

The profiler sees the event loop's thread, not the database's; its own weight falls most on small functions.
"""

from __future__ import annotations

import argparse
import pstats
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.bed import TASKS, Bed, make_bed
from benchmarks.child import PYTHON
from tests.peers.driver import running_endpoint


def profile(bed: Bed, runs: int, flags: list[str]) -> pstats.Stats:
    """Profile a sweep of *runs* runs."""
    found = bed.folder / "profile"
    argv = [PYTHON, "-m", "cProfile", "-o", str(found), "-m", "orchestrator.cli.main"]
    argv += ["--store", str(bed.store("profile")), "run", "bench", "--suite-dir", str(bed.folder / "bench"), "--yes"]
    argv += ["--quiet", "--k", str(runs // TASKS), "--concurrency", "100", *flags]
    subprocess.run(argv, check=True, cwd=bed.folder, env=bed.environment, stdout=subprocess.DEVNULL)
    return pstats.Stats(str(found), stream=sys.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hot")
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--http", action="store_true", help="against the endpoint instead of the scripted provider")
    parser.add_argument("--lines", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evalctl-bench-") as folder:
        bed = make_bed(Path(folder))
        if options.http:
            with running_endpoint(bed.folder / "ledger.jsonl", latency_ms=20) as endpoint:
                flags = ["--provider", "openai", "--base-url", endpoint.url, "--model", "bench"]
                found = profile(bed, options.runs, flags)
        else:
            found = profile(bed, options.runs, ["--provider", "scripted"])
        found.strip_dirs().sort_stats("tottime").print_stats(options.lines)


if __name__ == "__main__":
    main()
