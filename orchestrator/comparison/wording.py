"""How a comparison is worded for people, the same in every format. What does not exist is `n/a`, or says why."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from orchestrator.comparison.arm import Arm, Counts
from orchestrator.comparison.model import Comparison, Delta, Metric, SuiteDetail, TaskComparison
from orchestrator.reports.phrases import NOT_AVAILABLE, format_percent, format_seconds
from orchestrator.text import format_count
from store.stats.compare import PLAYED_MODES
from store.stats.paired import MIN_CASES
from store.stats.planning import MAX_REPETITIONS
from store.tallies import StartGaps

COMPACTION = "compaction"
"""The incident of an agent that is always told, and first: what failed after it may have been forgotten."""


def incidents_of(task: TaskComparison, comparison: Comparison) -> list[tuple[str, int, int]]:
    """Incidents with their counts on both sides, compaction first and always, where there is a context to compact."""
    before, after = task.baseline.incidents, task.candidate.incidents
    always = [] if comparison.baseline.is_flow and comparison.candidate.is_flow else [COMPACTION]
    names = [*always, *sorted({*before, *after}.difference(always))]
    return [(name, before.get(name, 0), after.get(name, 0)) for name in names]


def format_rate(counts: Counts, arm: Arm) -> str:
    """`3/5 60.0 % [23.1 %, 88.2 %]`; without the interval where recordings are played."""
    passed = f"{counts.passes}/{counts.judged} {format_percent(counts.success_rate)}"
    if counts.wilson is None or arm.mode in PLAYED_MODES:
        return passed
    low, high = counts.wilson
    return f"{passed} [{format_percent(low)}, {format_percent(high)}]"


def format_points(share: float | None) -> str:
    """A difference of rates: `+20.0`."""
    return NOT_AVAILABLE if share is None else f"{share * 100:+.1f}"


def format_p(p: float | None) -> str:
    """`0.0079`, `< 0.0001`."""
    if p is None:
        return NOT_AVAILABLE
    return f"{p:.2g}" if p >= 0.0001 else "< 0.0001"


def format_difference(task: TaskComparison) -> str:
    """The difference of the two rates in points, where the sides are comparable."""
    before, after = task.baseline.success_rate, task.candidate.success_rate
    if task.verdict == "not comparable" or before is None or after is None:
        return NOT_AVAILABLE
    return format_points(after - before)


def _sign_format(worded: Callable[[float], str]) -> Callable[[float], str]:
    return lambda value: f"{'+' if value >= 0 else '-'}{worded(abs(value))}"


def _format_whole(value: float) -> str:
    return f"{value:,.0f}"


def _format_share(value: float) -> str:
    return f"{value * 100:.1f} points"


def _format_cost(value: float) -> str:
    return f"{value:,.4f} USD"


LABELS: dict[Metric, tuple[str, Callable[[float], str], Callable[[float], str]]] = {
    "inputTokensPerRun": ("input tokens per judged run", _format_whole, _sign_format(_format_whole)),
    "outputTokensPerRun": ("output tokens per judged run", _format_whole, _sign_format(_format_whole)),
    "tokensPerRun": ("tokens per judged run", _format_whole, _sign_format(_format_whole)),
    "tokensPerSuccess": ("tokens per success", _format_whole, _sign_format(_format_whole)),
    "cachedInputRatio": ("cached input", format_percent, _sign_format(_format_share)),
    "wallMsMedian": ("wall time, median", format_seconds, _sign_format(format_seconds)),
    "wallMsPerSuccess": ("wall time per success", format_seconds, _sign_format(format_seconds)),
    "costUsdPerRun": ("cost per judged run", _format_cost, _sign_format(_format_cost)),
    "costUsdPerSuccess": ("cost per success", _format_cost, _sign_format(_format_cost)),
}
"""What a figure is called, and how it and its difference are worded."""


def format_figure(metric: Metric, value: float | None) -> str:
    """One side's figure."""
    return NOT_AVAILABLE if value is None else LABELS[metric][1](value)


def format_change(metric: Metric, delta: Delta) -> str:
    """The difference, or that there is none to tell."""
    return NOT_AVAILABLE if delta.delta is None else LABELS[metric][2](delta.delta)


def result_rows(comparison: Comparison, *, whole: str, metrics: tuple[Metric, ...]) -> Iterator[tuple[str, ...]]:
    """The table of results, a row per task and one for all of them, which is called *whole*.

    Its columns: task, baseline, candidate, points, verdict, a change per metric, compactions.
    """
    for task in (*comparison.tasks, comparison.suite):
        yield (
            task.id if task is not comparison.suite else whole,
            format_rate(task.baseline, comparison.baseline),
            format_rate(task.candidate, comparison.candidate),
            format_difference(task),
            task.verdict,
            *(format_change(metric, task.deltas[metric]) for metric in metrics),
            count_compactions(task),
        )


def count_compactions(task: TaskComparison) -> str:
    """Judged runs whose context was compacted, on both sides; nothing where there was none."""
    before, after = task.baseline, task.candidate
    if not before.compacted and not after.compacted:
        return ""
    return f"{before.compacted}/{before.judged}, {after.compacted}/{after.judged} runs"


def describe_gaps(gaps: StartGaps) -> str | None:
    """How far apart the runs of a pair began; None without pairs."""
    if gaps.longest_us is None or gaps.mean_us is None:
        return None
    return (
        f"the runs of {format_count(gaps.pairs, 'pair')} began {gaps.mean_us / 1_000_000:,.1f} s apart in the mean, "
        f"{gaps.longest_us / 1_000_000:,.1f} s at most"
    )


def summarize_verdicts(comparison: Comparison) -> str:
    """`1 improved, 2 inconclusive`."""
    return ", ".join(f"{number} {word}" for word, number in comparison.verdicts.items()) or "none"


def detail_rows(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    """What other methods say, a row per task: task, interval of the difference, Fisher p, Holm p, repetitions."""
    for task in comparison.tasks:
        detail = task.detail
        if detail is not None:
            yield (
                task.id,
                format_interval(detail.newcombe),
                format_p(detail.fisher_p),
                format_p(detail.holm_p),
                _describe_repetitions(task, detail.repetitions_needed),
            )


def format_interval(bounds: tuple[float, float] | None) -> str:
    """In points: `[-4.1, +61.0]`."""
    return NOT_AVAILABLE if bounds is None else f"[{format_points(bounds[0])}, {format_points(bounds[1])}]"


def _clamp_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    """A t interval knows no bounds; a difference of rates has some."""
    return max(-1.0, bounds[0]), min(1.0, bounds[1])


def _describe_repetitions(task: TaskComparison, needed: int | None) -> str:
    if needed is not None:
        return str(needed)
    before, after = task.baseline.success_rate, task.candidate.success_rate
    if task.verdict == "not comparable" or before is None or after is None:
        return NOT_AVAILABLE
    return "no difference seen" if before == after else f"more than {MAX_REPETITIONS}"


def suite_detail_lines(detail: SuiteDetail) -> Iterator[str]:
    """What the cases say together, a sentence each; every interval says which question it answers."""
    if detail.left_out:
        yield f"cases not judged on both sides, and left out here: {len(detail.left_out)}"
    like = detail.like_these
    if like is None:
        yield f"paired over cases: n/a with {format_count(detail.cases, 'case')}"
    else:
        moved = like.p is None
        difference = (
            f"every case moved by {format_points(like.diff)} points" if moved else f"{format_points(like.diff)} points"
        )
        tail = "" if moved else f" {format_interval(_clamp_bounds(like.ci))}, p {format_p(like.p)}"
        if detail.cases < MIN_CASES:
            tail = f"; below {MIN_CASES} cases an interval says nothing"
        check = "" if detail.signflip_p is None else f", sign-flip p {format_p(detail.signflip_p)}"
        yield (
            f"cases like these, paired over {format_count(detail.cases, 'case')}: {difference}{tail}{check}: "
            f"{detail.verdict}"
        )
    if detail.these is not None:
        yield (
            f"these cases only: {format_points(detail.these.diff)} points {format_interval(detail.these.ci)}; "
            "says nothing about other cases"
        )
    if detail.outcomes is not None:
        outcomes = detail.outcomes
        few = (
            "; fewer than 6 that differ cannot reach 0.05"
            if outcomes.only_candidate + outcomes.only_baseline < 6
            else ""
        )
        yield (
            f"case by case, one run a side: {outcomes.both} passed on both, "
            f"{outcomes.only_candidate} on the candidate only, {outcomes.only_baseline} on the baseline only, "
            f"{outcomes.neither} on neither: "
            f"{format_interval(outcomes.newcombe)} points, "
            f"McNemar p {format_p(outcomes.mcnemar_p)}{few}"
        )
    for name, side in (("baseline", detail.baseline), ("candidate", detail.candidate)):
        if side is not None and side.design_effect is not None and side.se is not None:
            yield (
                f"{name}: clustered by case the pooled rate's standard error is {side.se * 100:.1f} points "
                f"(ICC {side.icc:.2f}, design effect {side.design_effect:.2f})"
            )
    yield from _repetition_lines(detail)
    yield f"Fisher tests made: {detail.tests}; below 0.05 after Holm: {detail.survivors}"


def _repetition_lines(detail: SuiteDetail) -> Iterator[str]:
    needed, like = detail.needed, detail.like_these
    if needed is None or like is None:
        return
    basis = " (with usual variances: these runs do not tell theirs)" if needed.variances.assumed else ""
    if needed.smallest is not None:
        yield f"with 80 % power these cases and repetitions show {needed.smallest * 100:.1f} points{basis}"
    if needed.cases is None:
        return
    more = (
        "no number of repetitions of these cases"
        if needed.repetitions is None
        else f"{needed.repetitions} repetitions of these cases"
    )
    advice = "; more cases help, more repetitions hardly" if needed.buy_cases else ""
    yield f"to see {format_points(like.diff)} points: {needed.cases:,} cases with these repetitions, or {more}{advice}"
