"""Goals beside the floor and evalctl, measured in one interleaved run.

    python -m benchmarks.bench [--quick] [--only start,read,run,http,latency,store,ci,queries]

Every figure is the median of the rounds; within a round floor and evalctl take turns, so that whatever else the machine
does falls on both. CPU is user and system of the child with what it has reaped. Rows, commits and requests in flight
are counted from outside: in the store's file, in its WAL, by the endpoint. The table is printed once at the end and the
exit code is 0 also where a goal is missed: a figure of a busy machine is evidence, not a verdict.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from benchmarks import storing
from benchmarks.asking import answering, reading
from benchmarks.bed import Bed, file_bytes, make_bed
from benchmarks.child import EVALCTL, PYTHON, ROOT, Cost, measure, median_cpu
from benchmarks.lines import Line, Size, note, table
from benchmarks.replaying import replaying
from tests.peers.driver import Endpoint, running_endpoint

VERBS = ("list", "check", "run", "resume", "status", "show", "compare", "variants", "record", "ci", "export", "cancel")
SECTIONS = ("start", "read", "run", "http", "latency", "store", "ci", "queries")


FULL = Size(rounds=5, runs=(500, 2_000, 8_000), latency_runs=2_000, rows=100_000)
QUICK = Size(rounds=3, runs=(100, 400, 1_200), latency_runs=500, rows=100_000)


def starting(bed: Bed, size: Size) -> list[Line]:
    """Goals 1 and 2: what it costs to be asked for the version and for help."""
    asked = [("--version",), ("--help",), *((verb, "--help") for verb in VERBS)]
    costs: dict[tuple[str, ...], list[Cost]] = defaultdict(list)
    for _ in range(2 * size.rounds + 1):
        costs["pass",].append(measure([PYTHON, "-c", "pass"], bed.environment, cwd=bed.folder))
        for arguments in asked:
            costs[arguments].append(measure([EVALCTL, *arguments], bed.environment, cwd=bed.folder))
    nothing = median_cpu(costs["pass",])
    version = median_cpu(costs["--version",])
    helps = {" ".join(arguments): median_cpu(costs[arguments]) for arguments in asked[1:]}
    dearest = max(helps, key=lambda name: helps[name])
    return [
        Line(
            number=1,
            what="evalctl --version, CPU",
            goal="<= 3x python -c pass",
            floor=f"{nothing * 1e3:.0f} ms",
            evalctl=f"{version * 1e3:.0f} ms",
            ratio=f"{version / nothing:.1f}x",
            kept=version <= 3 * nothing,
        ),
        Line(
            number=2,
            what=f"--help of all, dearest: {dearest}",
            goal="<= 10x python -c pass",
            floor=f"{nothing * 1e3:.0f} ms",
            evalctl=f"{helps[dearest] * 1e3:.0f} ms",
            ratio=f"{helps[dearest] / nothing:.1f}x",
            kept=helps[dearest] <= 10 * nothing,
        ),
    ]


def running(bed: Bed, size: Size) -> list[Line]:
    """Goals 4, 5, 10 and 11: fixed cost, slope, growth and size with the scripted provider, 100 at once."""
    small, middle, large = size.runs
    ours: dict[int, list[Cost]] = defaultdict(list)
    floor: dict[int, list[Cost]] = defaultdict(list)
    bytes_ours: list[float] = []
    bytes_floor: list[float] = []
    for number in range(size.rounds):
        for runs in (1, small, middle, large):
            note(f"scripted: round {number + 1} of {size.rounds}, {runs} runs")
            store = bed.store("floor")
            floor[runs].append(bed.floor(store, runs))
            if runs == large:
                bytes_floor.append(file_bytes(store) / runs)
            store = bed.store("evalctl")
            ours[runs].append(bed.scripted(store, runs))
            if runs == large:
                bytes_ours.append(file_bytes(store) / runs)

    def slope(costs: dict[int, list[Cost]], few: int, many: int) -> float:
        return (median_cpu(costs[many]) - median_cpu(costs[few])) / (many - few)

    def rss(costs: dict[int, list[Cost]], runs: int) -> float:
        return statistics.median(cost.rss_kib for cost in costs[runs])

    fixed, fixed_floor = median_cpu(ours[1]), median_cpu(floor[1])
    marginal, marginal_floor = slope(ours, small, large), slope(floor, small, large)
    growth, growth_floor = (
        # below a tenth of a second the difference of two starts is noise
        slope(c, 1, large) / slope(c, 1, middle) if median_cpu(c[middle]) - median_cpu(c[1]) > 0.1 else None
        for c in (ours, floor)
    )
    memory, memory_floor = ((rss(c, large) - rss(c, small)) / (large - small) for c in (ours, floor))
    total, total_floor = rss(ours, large) / 1024, rss(floor, large) / 1024
    kept, kept_floor = statistics.median(bytes_ours) / 1000, statistics.median(bytes_floor) / 1000
    return [
        Line(
            number=4,
            what="fixed cost of run (1 run), CPU",
            goal="<= 0.9 s",
            floor=f"{fixed_floor:.2f} s",
            evalctl=f"{fixed:.2f} s",
            ratio=f"{fixed / fixed_floor:.1f}x",
            kept=fixed <= 0.9,
        ),
        Line(
            number=5,
            what=f"CPU per run, in process, c=100, {small} to {large} runs",
            goal="<= 0.25 ms",
            floor=f"{marginal_floor * 1e3:.3f} ms",
            evalctl=f"{marginal * 1e3:.3f} ms",
            ratio=f"{marginal / marginal_floor:.0f}x",
            kept=marginal <= 0.25e-3,
        ),
        Line(
            number=10,
            what=f"CPU per run at {large} against {middle}",
            goal="<= 1.1x",
            floor="-" if growth_floor is None else f"{growth_floor:.2f}x",
            evalctl="-" if growth is None else f"{growth:.2f}x",
            kept=None if growth is None else growth <= 1.1,
        ),
        Line(
            number=10,
            what=f"memory growth {small} to {large}",
            goal="<= 1 KiB a run",
            floor=f"{memory_floor:.2f} KiB",
            evalctl=f"{memory:.2f} KiB",
            kept=memory <= 1,
        ),
        Line(
            number=10,
            what=f"resident at {large}",
            goal="<= 90 MiB",
            floor=f"{total_floor:.0f} MiB",
            evalctl=f"{total:.0f} MiB",
            ratio=f"{total / total_floor:.1f}x",
            kept=total <= 90,
        ),
        Line(
            number=11,
            what="store per run, indices included",
            goal="<= 1.5 kB",
            floor=f"{kept_floor:.2f} kB",
            evalctl=f"{kept:.2f} kB",
            ratio=f"{kept / kept_floor:.1f}x",
            kept=kept <= 1.5,
        ),
    ]


def waiting(bed: Bed, size: Size) -> list[Line]:
    """Goal 9: 200 ms answers, 100 at once. The endpoint says when the first came and the last left, and the peak."""
    runs, ideal = size.latency_runs, size.latency_runs / 100 * 0.2
    whole: dict[str, list[float]] = defaultdict(list)
    inner: dict[str, list[float]] = defaultdict(list)
    cpu: dict[str, list[float]] = defaultdict(list)
    peaks: dict[str, int] = {}

    def once(name: str, measured: Callable[[Endpoint], Cost]) -> None:
        ledger = bed.folder / f"{name}-{len(whole[name])}.jsonl"
        with running_endpoint(ledger, latency_ms=200) as endpoint:
            cost = measured(endpoint)
            counts = endpoint.counts()
            lines = endpoint.lines()
        assert counts["answered"] == counts["requests"] == runs, counts
        peaks[name] = max(peaks.get(name, 0), counts["peak"])
        whole[name].append(ideal / cost.wall_s)
        inner[name].append(ideal / (max(line["until"] for line in lines) - min(line["at"] for line in lines)))
        cpu[name].append(cost.cpu_s / runs)

    for number in range(size.rounds):
        note(f"latency: round {number + 1} of {size.rounds}, {runs} runs")
        once("floor", lambda endpoint: bed.floor(bed.store("floor"), runs, endpoint))
        once("evalctl", lambda endpoint: bed.against(bed.store("evalctl"), runs, endpoint))
    share = {name: statistics.median(values) for name, values in whole.items()}
    within = {name: statistics.median(values) for name, values in inner.items()}
    each = {name: statistics.median(values) * 1e3 for name, values in cpu.items()}
    return [
        Line(
            number=9,
            what=f"200 ms, c=100, {runs} runs: share of the ideal, whole process",
            goal=">= 72 % (at 2,000 runs)",
            floor=f"{share['floor']:.0%}",
            evalctl=f"{share['evalctl']:.0%}",
            kept=share["evalctl"] >= 0.72,
        ),
        Line(
            number=9,
            what="the same, first request to last answer",
            goal=">= 95 %",
            floor=f"{within['floor']:.0%}",
            evalctl=f"{within['evalctl']:.0%}",
            kept=within["evalctl"] >= 0.95,
        ),
        Line(
            number=9,
            what="peak in flight, by the endpoint's count",
            goal="100, never 101",
            floor=str(peaks["floor"]),
            evalctl=str(peaks["evalctl"]),
            kept=peaks["evalctl"] == 100,
        ),
        Line(
            number=9,
            what="CPU per run over HTTP, start included",
            goal="-",
            floor=f"{each['floor']:.2f} ms",
            evalctl=f"{each['evalctl']:.2f} ms",
            ratio=f"{each['evalctl'] / each['floor']:.1f}x",
        ),
    ]


def writing(bed: Bed, size: Size) -> list[Line]:
    """Goals 12, 13 and 14: rows per CPU second, transactions, durability."""
    rows = size.rows
    seconds: dict[str, list[float]] = defaultdict(list)
    commits: list[int] = []
    synchronous: set[int] = set()
    for number in range(size.rounds):
        note(f"store: round {number + 1} of {size.rounds}, {rows} rows")
        for what in ("bare", "append", "encode"):
            found = storing.measured(what, bed.store(what), rows, bed.environment)
            seconds[what].append(found["cpu_s"])
            if what == "encode":
                commits.append(found["commits"])
                synchronous.add(found["synchronous"])
    rate = {what: rows / statistics.median(values) for what, values in seconds.items()}
    told, kept = storing.survived_kill(bed.store("kill"), bed.environment)
    return [
        Line(
            number=12,
            what="rows per CPU s, JSON ready, through the writer",
            goal=">= 250k, or within 2.4x of bare sqlite3",
            floor=f"{rate['bare'] / 1e3:.0f}k",
            evalctl=f"{rate['append'] / 1e3:.0f}k",
            ratio=f"{rate['bare'] / rate['append']:.1f}x",
            kept=rate["append"] >= 250e3 or rate["bare"] <= 2.4 * rate["append"],
        ),
        Line(
            number=12,
            what="events per CPU s through the ledger, encoded and guarded",
            goal=">= 100k",
            floor=f"{rate['bare'] / 1e3:.0f}k",
            evalctl=f"{rate['encode'] / 1e3:.0f}k",
            ratio=f"{rate['bare'] / rate['encode']:.1f}x",
            kept=rate["encode"] >= 100e3,
        ),
        Line(
            number=13,
            what=f"transactions for {rows:,} events offered without waiting",
            goal="<= 1,000",
            evalctl=str(max(commits)),
            kept=0 < max(commits) <= 1000,
        ),
        Line(
            number=14,
            what="PRAGMA synchronous on the writer's connection",
            goal="2 (FULL)",
            evalctl=", ".join(map(str, sorted(synchronous))),
            kept=synchronous == {2},
        ),
        Line(
            number=14,
            what="acknowledged outcomes in the store after kill -9 (power loss is not tested)",
            goal="all",
            evalctl=f"{kept} of {told}",
            kept=kept == told,
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds and runs; no million-run table")
    parser.add_argument("--only", default=",".join(SECTIONS), help=f"sections, of {','.join(SECTIONS)}")
    options = parser.parse_args()
    chosen = set(options.only.split(","))
    if unknown := chosen - set(SECTIONS):
        parser.error(f"no such section: {', '.join(sorted(unknown))}")
    size = QUICK if options.quick else FULL
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="evalctl-bench-") as folder:
        bed = make_bed(Path(folder))
        for name, measure_section in (
            ("start", starting),
            ("read", reading),
            ("run", running),
            ("http", answering),
            ("latency", waiting),
            ("store", writing),
            ("ci", replaying),
        ):
            if name in chosen:
                lines += measure_section(bed, size)
    load = os.getloadavg()[0]
    print(f"{size.rounds} rounds, medians; {os.cpu_count()} CPUs, load {load:.1f}, Python {sys.version.split()[0]}\n")
    print(table(lines), flush=True)
    if "queries" in chosen and not options.quick:
        print("\nqueries over 1,000,000 runs\n", flush=True)
        measure_queries()


def measure_queries() -> None:
    """The table of the store's named queries, by `benchmarks.queries`."""
    sys.exit(subprocess.run([PYTHON, "-m", "benchmarks.queries"], cwd=ROOT, check=False).returncode)


if __name__ == "__main__":
    main()
