"""Wording of a comparison, the same in every format. A missing figure is `n/a` or gives a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from orchestrator.comparison.arm import Arm, Counts
from orchestrator.comparison.model import Comparison, Delta, Metric, PairedOutcomes, SuiteDetail, TaskComparison
from orchestrator.reports.phrases import NOT_AVAILABLE, format_percent, format_seconds
from orchestrator.text import format_count
from store.stats.compare import PLAYED_MODES
from store.stats.paired import MIN_CASES
from store.stats.planning import MAX_REPETITIONS
from store.tallies import StartGaps

COMPACTION = "compaction"
"""The incident that is always listed, and first: after a compaction the agent may have forgotten its instructions."""


def incidents_of(task: TaskComparison, comparison: Comparison) -> list[tuple[str, int, int]]:
    """List incidents with their counts on both sides; of agents compaction comes first, even with no occurrence."""
    before, after = task.baseline.incidents, task.candidate.incidents
    always = [] if comparison.baseline.is_flow and comparison.candidate.is_flow else [COMPACTION]
    names = [*always, *sorted({*before, *after}.difference(always))]
    return [(name, before.get(name, 0), after.get(name, 0)) for name in names]


def format_rate(counts: Counts, arm: Arm) -> str:
    """Format a rate: `3/5 60.0 % [23.1 %, 88.2 %]`; without the interval if recordings were played."""
    passed = f"{counts.passes}/{counts.judged} {format_percent(counts.success_rate)}"
    if counts.wilson is None or arm.mode in PLAYED_MODES:
        return passed
    low, high = counts.wilson
    return f"{passed} [{format_percent(low)}, {format_percent(high)}]"


def format_points(share: float | None) -> str:
    """Format a difference of rates in points: `+20.0`."""
    return NOT_AVAILABLE if share is None else f"{share * 100:+.1f}"


def format_p(p: float | None) -> str:
    """Format a p value: `0.0079`, `< 0.0001`."""
    if p is None:
        return NOT_AVAILABLE
    return f"{p:.2g}" if p >= 0.0001 else "< 0.0001"


def format_difference(task: TaskComparison) -> str:
    """Format the difference of the two rates in points; `n/a` if the sides are not comparable."""
    before, after = task.baseline.success_rate, task.candidate.success_rate
    if task.verdict == "not comparable" or before is None or after is None:
        return NOT_AVAILABLE
    return format_points(after - before)


def _sign_format(format_value: Callable[[float], str]) -> Callable[[float], str]:
    return lambda value: f"{'+' if value >= 0 else '-'}{format_value(abs(value))}"


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
"""By metric: its label, the format of a figure, and the format of a difference."""


def format_figure(metric: Metric, value: float | None) -> str:
    """Format the figure of one side."""
    return NOT_AVAILABLE if value is None else LABELS[metric][1](value)


def format_change(metric: Metric, delta: Delta) -> str:
    """Format the difference, or `n/a`."""
    return NOT_AVAILABLE if delta.delta is None else LABELS[metric][2](delta.delta)


def result_rows(comparison: Comparison, *, whole: str, metrics: tuple[Metric, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the table of results: a row per task, and one for all tasks, labelled *whole*.

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
    """Format the judged runs with a compacted context on both sides; empty if there are none."""
    before, after = task.baseline, task.candidate
    if not before.compacted and not after.compacted:
        return ""
    return f"{before.compacted}/{before.judged}, {after.compacted}/{after.judged} runs"


def describe_gaps(gaps: StartGaps) -> str | None:
    """Describe the gaps between the starts of paired runs; None without pairs."""
    if gaps.longest_us is None or gaps.mean_us is None:
        return None
    return (
        f"the runs of {format_count(gaps.pairs, 'pair')} began {gaps.mean_us / 1_000_000:,.1f} s apart on average, "
        f"{gaps.longest_us / 1_000_000:,.1f} s at most"
    )


def summarize_verdicts(comparison: Comparison) -> str:
    """Count tasks by verdict: `1 improved, 2 inconclusive`."""
    return ", ".join(f"{number} {word}" for word, number in comparison.verdicts.items()) or "none"


def detail_rows(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    """Yield further statistics, a row per task: task, interval of the difference, Fisher p, Holm p, repetitions."""
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
    """Format an interval in points: `[-4.1, +61.0]`."""
    return NOT_AVAILABLE if bounds is None else f"[{format_points(bounds[0])}, {format_points(bounds[1])}]"


def _clamp_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    """Clamp a t interval to the possible differences of two rates, -1 to 1."""
    return max(-1.0, bounds[0]), min(1.0, bounds[1])


def _describe_repetitions(task: TaskComparison, needed: int | None) -> str:
    if needed is not None:
        return str(needed)
    before, after = task.baseline.success_rate, task.candidate.success_rate
    if task.verdict == "not comparable" or before is None or after is None:
        return NOT_AVAILABLE
    return "no difference seen" if before == after else f"more than {MAX_REPETITIONS}"


def suite_detail_lines(detail: SuiteDetail) -> Iterator[str]:
    """Yield further statistics of the suite, a sentence each; every interval names the question it answers."""
    if detail.left_out:
        yield f"cases left out because they were not judged on both sides: {len(detail.left_out)}"
    yield _describe_paired(detail)
    if detail.these is not None:
        yield (
            f"these cases only: {format_points(detail.these.diff)} points {format_interval(detail.these.ci)}; "
            "this says nothing about other cases"
        )
    if detail.outcomes is not None:
        yield _describe_outcomes(detail.outcomes)
    for name, side in (("baseline", detail.baseline), ("candidate", detail.candidate)):
        if side is not None and side.design_effect is not None and side.se is not None:
            yield (
                f"{name}: standard error of the pooled rate, clustered by case: {side.se * 100:.1f} points "
                f"(ICC {side.icc:.2f}, design effect {side.design_effect:.2f})"
            )
    yield from _repetition_lines(detail)
    yield f"Fisher tests made: {detail.tests}; below 0.05 after Holm: {detail.survivors}"


def _describe_paired(detail: SuiteDetail) -> str:
    """Describe the paired t test over cases."""
    like, cases = detail.like_these, format_count(detail.cases, "case")
    if like is None:
        return f"paired over cases: n/a with {cases}"
    difference = f"{format_points(like.diff)} points"
    tail = f" {format_interval(_clamp_bounds(like.ci))}, p {format_p(like.p)}"
    if like.p is None:
        difference, tail = f"every case moved by {difference}", ""
    if detail.cases < MIN_CASES:
        tail = f"; below {MIN_CASES} cases an interval means nothing"
    check = "" if detail.sign_flip_p is None else f", sign-flip p {format_p(detail.sign_flip_p)}"
    return f"cases like these, paired over {cases}: {difference}{tail}{check}: {detail.verdict}"


def _describe_outcomes(outcomes: PairedOutcomes) -> str:
    """Describe the outcomes of cases that were judged once per side."""
    few = outcomes.only_candidate + outcomes.only_baseline < 6
    return (
        f"case by case, one run per side: {outcomes.both} passed on both, {outcomes.only_candidate} on the candidate "
        f"only, {outcomes.only_baseline} on the baseline only, {outcomes.neither} on neither: "
        f"{format_interval(outcomes.newcombe)} points, McNemar p {format_p(outcomes.mcnemar_p)}"
        + ("; fewer than 6 differing cases cannot reach 0.05" if few else "")
    )


def _repetition_lines(detail: SuiteDetail) -> Iterator[str]:
    needed, like = detail.needed, detail.like_these
    if needed is None or like is None:
        return
    basis = " (with usual variances: these runs are too few to estimate them)" if needed.variances.assumed else ""
    if needed.smallest is not None:
        yield f"with 80 % power these cases and repetitions detect {needed.smallest * 100:.1f} points{basis}"
    if needed.cases is None:
        return
    more = (
        "no number of repetitions of these cases"
        if needed.repetitions is None
        else f"{needed.repetitions} repetitions of these cases"
    )
    advice = "; more cases help, more repetitions hardly do" if needed.buy_cases else ""
    cases = f"{needed.cases:,} cases with these repetitions"
    yield f"to detect {format_points(like.diff)} points: {cases}, or {more}{advice}"
