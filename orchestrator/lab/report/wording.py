"""The wording of a lab's figures in all text formats. A figure that does not exist is `n/a`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from orchestrator.comparison.wording import format_interval, format_p, format_points
from orchestrator.lab.report.model import (
    BrokenAssertion,
    Calibration,
    CapabilityReport,
    FailingCase,
    LabFacts,
    LabReport,
    SkippedRuns,
    Stability,
    TargetComparison,
    TargetCost,
    TargetRow,
    UnstableCase,
)
from orchestrator.reports.phrases import NOT_AVAILABLE, format_percent, format_requests, format_seconds
from orchestrator.text import format_count, list_names
from store.events import Json
from store.money import format_nano_usd
from store.stats.rates import Interval

HEAD = ("TARGET", "PASS", "STABLE", "ABSTAIN", "ERROR", "P50", "P95", "COST", "BRIER")
BINS_HEAD = ("TARGET", "CONFIDENCE", "RUNS", "MEAN CONFIDENCE", "RIGHT")
MAX_REASONS = 3
"""Different reasons of abstentions, and of errors, shown per case; the rest is counted."""
MIN_P95_RUNS = 20
"""Runs below which a 95th percentile is hardly more than the maximum."""


def format_headline(facts: LabFacts) -> str:
    """Format the conditions of all figures on one line."""
    parts = [f"mode {facts.mode}"]
    if facts.sampled:
        parts.append(f"repeat {facts.repeat}, seed {facts.seed}")
    parts += [f"target {_format_target(facts, target.id)}" for target in facts.targets]
    return ", ".join(parts)


def _format_target(facts: LabFacts, name: str) -> str:
    """Format a target: `jev (typesafe, jev-latest)`."""
    for target in facts.targets:
        if target.id == name and target.backend is not None:
            return f"{name} ({target.backend}, {target.model}{', local' if target.local else ''})"
    return name


def format_summary(report: LabReport) -> str:
    """Format the totals: `31 of 34 judged runs passed, 3 did not, 2 skipped`."""
    parts = [f"{report.passes} of {format_count(report.judged, 'judged run')} passed", f"{report.failed} did not"]
    if report.skipped:
        parts.append(f"{report.skipped} skipped")
    rest = report.planned - report.judged - report.skipped
    if rest:
        parts.append(f"{rest} without a result that counts")
    return ", ".join(parts)


def format_row(row: TargetRow, facts: LabFacts) -> tuple[str, ...]:
    """Format one line of the table under `HEAD`."""
    return (
        row.target,
        format_rate(row.passes, row.judged, row.wilson),
        format_stability(row.stability),
        format_share(row.abstained, row.judged),
        format_share(row.errors, row.judged),
        format_seconds(row.latency.p50_ms),
        format_seconds(row.latency.p95_ms),
        format_cost(row.cost) if facts.sampled else NOT_AVAILABLE,
        format_brier(row.calibration),
    )


def format_rate(passes: int, judged: int, wilson: Interval | None) -> str:
    """Format a rate: `8/10 80.0 % [49.0 %, 94.3 %]`; without the interval offline."""
    share = format_share(passes, judged)
    return share if wilson is None else f"{share} [{format_percent(wilson[0])}, {format_percent(wilson[1])}]"


def format_share(number: int, whole: int) -> str:
    """Format a share: `1/10 10.0 %`."""
    return f"{number}/{whole} {format_percent(number / whole)}" if whole else NOT_AVAILABLE


def format_stability(stability: Stability) -> str:
    """Format the share of stable cases among those with repetitions: `5/6 83.3 %`."""
    return format_share(stability.same, stability.repeated)


def format_few_times(capability: CapabilityReport) -> str | None:
    """Name the targets with few times, `p95 near the maximum: jev (n=16)`; None without any."""
    few = [
        f"{row.target} (n={row.latency.n})"
        for row in capability.rows
        if row.latency.p95_ms is not None and row.latency.n < MIN_P95_RUNS
    ]
    return f"p95 near the maximum: {', '.join(few)}" if few else None


def format_cost(cost: TargetCost) -> str:
    """Format a cost: `$0.0123`, `$0 (local)` or `unknown`."""
    if cost.nusd is None:
        return "unknown"
    return "$0 (local)" if cost.local and not cost.nusd else f"${format_nano_usd(cost.nusd)}"


def format_brier(calibration: Calibration) -> str:
    """Format a Brier score with three decimals."""
    return NOT_AVAILABLE if calibration.brier is None else f"{calibration.brier:.3f}"


def format_calibration(row: TargetRow) -> str:
    """Format the calibration of a row in one sentence."""
    figures = row.calibration
    interval = (
        f" [{figures.interval[0]:.3f}, {figures.interval[1]:.3f}] over fixtures" if figures.interval is not None else ""
    )
    parts = [f"{row.target}: Brier {format_brier(figures)}{interval}"]
    parts.append(
        "no skill: all runs were right, or all wrong" if figures.skill is None else f"skill {figures.skill:+.3f}"
    )
    if figures.ece is not None:
        parts.append(f"ECE {figures.ece:.3f} (ECE is biased upward and depends on bins; N={figures.n})")
    return (
        ", ".join(parts)
        + f"; {figures.right} right of {format_count(figures.n, 'run')} with a confidence, {figures.silent} without"
    )


def list_bin_rows(row: TargetRow) -> Iterator[tuple[str, ...]]:
    """List the rows of the reliability table under `BINS_HEAD`, one for each bin that is not empty."""
    for interval in row.calibration.bins:
        if interval.n and interval.mean_conf is not None and interval.accuracy is not None:
            last = "]" if interval.high >= 1 else ")"
            # offline, nothing is sampled and there is no interval
            wilson = interval.wilson if row.wilson is not None else None
            yield (
                row.target,
                f"[{interval.low:.1f}, {interval.high:.1f}{last}",
                str(interval.n),
                f"{interval.mean_conf:.3f}",
                format_rate(round(interval.accuracy * interval.n), interval.n, wilson),
            )


def list_rows_with_confidence(capability: CapabilityReport) -> list[TargetRow]:
    """List the rows with confidences."""
    return [row for row in capability.rows if row.calibration.n]


def format_failing(failing: FailingCase) -> str:
    """Format a failing case: its target and how many runs did not pass."""
    return f"{failing.case}, {failing.target}: {failing.failed} of {format_count(failing.judged, 'run')} did not pass"


def list_reason_lines(failing: FailingCase) -> Iterator[str]:
    """List the reasons of abstentions and errors, most frequent first."""
    for word, counts in (("abstained", failing.abstentions), ("error", failing.errors)):
        reasons = sorted(counts.items(), key=lambda item: -item[1])
        yield from (
            f"{word}{_format_times(times, failing.judged)}: {reason}" for reason, times in reasons[:MAX_REASONS]
        )
        if len(reasons) > MAX_REASONS:
            yield f"{word}: for {format_count(len(reasons) - MAX_REASONS, 'other reason')}"


def list_broken_rule_lines(broken: BrokenAssertion, judged: int) -> Iterator[str]:
    """List the broken rule, its assertion and the values of its examples."""
    yield f"why: {broken.why}{_format_times(broken.runs, judged)}"
    yield f"{broken.assertion}: {broken.cel}"
    for example in broken.examples:
        reason = f" ({example.reason})" if example.reason else ""
        yield f"with {format_values(example.values)}{reason}"
    more = broken.different - len(broken.examples)
    if more:
        yield f"and with {format_count(more, 'other value')}"


def format_values(values: Json) -> str:
    """Format an assertion's values: `decision.verdict = "allow", status = "ok"`."""
    if isinstance(values, Mapping) and values:
        return ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
    return "no values" if values in (None, {}, []) else json.dumps(values, ensure_ascii=False)


def _format_times(times: int, judged: int) -> str:
    return "" if judged == 1 else f" (in {times} of {judged} runs)"


def format_unstable(unstable: UnstableCase) -> str:
    """Format an unstable case: `toolgate/rm-root, jev: 2 pass, ok; 1 fail, abstain`."""
    return f"{unstable.case}, {unstable.target}: " + "; ".join(
        f"{times} {ending}" for ending, times in unstable.endings.items()
    )


def format_skipped(skipped: SkippedRuns) -> str:
    """Format skipped runs: `toolgate/rm-root, jev: stale: fixture version 1 recorded, now 2`."""
    message = f": {skipped.message}" if skipped.message else ""
    times = "" if skipped.runs == 1 else f", {skipped.runs} runs"
    return f"{skipped.case}, {skipped.target}: {skipped.reason}{message}{times}"


def format_comparison(comparison: TargetComparison) -> str:
    """Format the paired comparison of two targets in one sentence."""
    scope = "all capabilities" if comparison.capability is None else comparison.capability
    left_out = f", {comparison.left_out} left out" if comparison.left_out else ""
    cases = format_count(comparison.cases, "fixture")
    head = f"{scope}: {comparison.candidate} against {comparison.baseline} on {cases}{left_out}"
    if comparison.verdict is None:
        same = comparison.cases - len(comparison.differing)
        return f"{head}: {same} the same, {len(comparison.differing)} different{_join_cases(comparison.differing)}"
    test = comparison.like_these
    if test is None:
        return f"{head}: {comparison.verdict}"
    moved = test.p is None
    difference = (
        f"every case moved by {format_points(test.diff)} points" if moved else f"{format_points(test.diff)} points"
    )
    possible = max(-1.0, test.ci[0]), min(1.0, test.ci[1])  # a t interval is unbounded, a difference of rates is not
    tail = "" if moved else f" {format_interval(possible)}, p {format_p(test.p)}"
    if comparison.verdict == "low power":
        tail = ""
    check = "" if comparison.signflip_p is None else f", sign-flip p {format_p(comparison.signflip_p)}"
    return f"{head}, paired: {difference}{tail}{check}: {comparison.verdict}{_join_cases(comparison.differing)}"


def _join_cases(cases: tuple[str, ...]) -> str:
    if not cases:
        return ""
    return f" (differing: {list_names(cases)})"


def format_spent(facts: LabFacts) -> str | None:
    """Format the total of all requests; None offline.

    The charged amount is not the cost: a request that was cut off is charged at its upper bound.
    """
    if facts.spent is None:
        return None
    spent = facts.spent
    money = f", {format_nano_usd(spent.nusd)} USD charged" if spent.nusd else ""
    return f"spent on all requests: {format_requests(spent.calls, spent.tokens)}{money}"
