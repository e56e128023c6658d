"""Goals 3 and 15: what it costs to ask a store; goals 6, 7 and 8: what a run costs over HTTP."""

from __future__ import annotations

import statistics
import time  # noqa: TID251 - a benchmark measures CPU time
from collections import defaultdict
from pathlib import Path

from benchmarks.bed import Bed
from benchmarks.child import PYTHON, Cost, measure, median_cpu
from benchmarks.lines import Line, Size, note
from store.sql.reader import Reader
from tests.peers.driver import running_endpoint


def reading(bed: Bed, size: Size) -> list[Line]:
    """`list` and `status` on a store of 2,000 runs, and the outcome counts of the largest sweep."""
    _, middle, large = size.runs
    store, many = bed.store("read"), bed.store("many")
    note(f"reading: making stores of {middle} and {large} runs")
    bed.scripted(store, middle)
    bed.scripted(many, large)
    nothing: list[Cost] = []
    costs: dict[str, list[Cost]] = defaultdict(list)
    for _ in range(2 * size.rounds + 1):
        nothing.append(measure([PYTHON, "-c", "pass"], bed.environment, cwd=bed.folder))
        for verb in ("list", "status"):
            costs[verb].append(bed.evalctl(store, verb))
        costs["many"].append(bed.evalctl(many, "status"))
    counted = statistics.median(_counting(many, large) for _ in range(size.rounds))
    least = median_cpu(nothing)
    asked = [
        Line(
            number=3,
            what=f"evalctl {verb}, {middle} runs in the store, CPU",
            goal="<= 8x python -c pass (<= 0.18 s)",
            floor=f"{least * 1e3:.0f} ms",
            evalctl=f"{median_cpu(costs[verb]) * 1e3:.0f} ms",
            ratio=f"{median_cpu(costs[verb]) / least:.1f}x",
            kept=median_cpu(costs[verb]) <= max(8 * least, 0.18),
        )
        for verb in ("list", "status")
    ]
    return [
        *asked,
        Line(
            number=15,
            what=f"outcome counts of {large} runs, the query",
            goal="<= 50 ms",
            evalctl=f"{counted * 1e3:.1f} ms",
            kept=counted <= 0.05,
        ),
        Line(
            number=15,
            what=f"status of {large} runs, the command",
            goal="<= 0.3 s",
            evalctl=f"{median_cpu(costs['many']):.2f} s",
            kept=median_cpu(costs["many"]) <= 0.3,
        ),
    ]


def _counting(store: Path, runs: int) -> float:
    with Reader(store) as reader:
        sweep = reader.find_sweep("last")
        begun = time.process_time()
        tallies = reader.count_outcomes(sweep.id)
        took = time.process_time() - begun
    assert sum(tally.count for tally in tallies) == runs
    return took


def answering(bed: Bed, size: Size) -> list[Line]:
    """CPU per run against the counting endpoint, plain and with twenty chunks, and at three concurrencies."""
    runs = size.latency_runs
    costs: dict[str, list[float]] = defaultdict(list)
    with running_endpoint(bed.folder / "http.jsonl") as endpoint:
        for number in range(size.rounds):
            note(f"http: round {number + 1} of {size.rounds}, {runs} runs")
            for chunks in (1, 20):
                endpoint.plan({"do": {"chunks": chunks}})
                costs[f"floor {chunks}"].append(bed.floor(bed.store("floor"), runs, endpoint).cpu_s / runs)
                costs[f"evalctl {chunks}"].append(bed.against(bed.store("evalctl"), runs, endpoint).cpu_s / runs)
            endpoint.plan({"do": {"chunks": 1}})
            for concurrency in (10, 500):
                cost = bed.against(bed.store("evalctl"), runs, endpoint, concurrency=concurrency)
                costs[f"c={concurrency}"].append(cost.cpu_s / runs)
    each = {name: statistics.median(values) * 1e3 for name, values in costs.items()}
    return [
        Line(
            number=number,
            what=f"CPU per run over HTTP, c=100, {what}, start included",
            goal=f"<= {goal} ms or <= 1.5x the floor",
            floor=f"{each[f'floor {chunks}']:.2f} ms",
            evalctl=f"{each[f'evalctl {chunks}']:.2f} ms",
            ratio=f"{each[f'evalctl {chunks}'] / each[f'floor {chunks}']:.1f}x",
            kept=each[f"evalctl {chunks}"] <= max(goal, 1.5 * each[f"floor {chunks}"]),
        )
        for number, chunks, what, goal in ((6, 1, "one chunk", 1.2), (7, 20, "20 chunks stored", 2.5))
    ] + [
        Line(
            number=8,
            what="CPU per run at c=500 against c=10",
            goal="<= 1.3x",
            floor=f"{each['c=10']:.2f} ms",
            evalctl=f"{each['c=500']:.2f} ms",
            ratio=f"{each['c=500'] / each['c=10']:.2f}x",
            kept=each["c=500"] <= 1.3 * each["c=10"],
        )
    ]
