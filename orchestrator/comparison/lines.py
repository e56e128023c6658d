"""The comparison as `compare` prints it: plain lines without control characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchestrator.comparison import wording
from orchestrator.comparison.arm import Arm
from orchestrator.comparison.model import ESTIMATED, MEASURED, Comparison, Metric
from orchestrator.reports.phrases import PLAYED_MODE_NOTICES, format_condition
from orchestrator.text import align_rows, list_names, one_line

COLUMNS: dict[Metric, str] = {
    "tokensPerRun": "TOKENS/RUN",
    "wallMsMedian": "WALL",
    "cachedInputRatio": "CACHED",
    "costUsdPerRun": "COST/RUN",
}
"""Figures with a column of their own, shown if any task has a difference."""
HEAD = ("TASK", "BASELINE", "CANDIDATE", "POINTS", "VERDICT")
DETAIL_HEAD = ("TASK", "DIFFERENCE (95 % NEWCOMBE)", "FISHER P", "HOLM P", "REPETITIONS NEEDED")
MAX_NOTE_CHARS = 2000
"""Characters of a note that are printed."""


def render_lines(comparison: Comparison) -> Iterator[str]:
    """Yield every line, without control characters."""
    before, after = comparison.baseline, comparison.candidate
    yield f"{one_line(before.suite_id)} {one_line(before.suite_version)}: candidate against baseline"
    for name, arm in (("baseline", before), ("candidate", after)):
        yield f"{name:<9}  {one_line(arm.name, 1000)}: {_describe_conditions(arm)}"
    if comparison.replay:
        yield PLAYED_MODE_NOTICES[before.mode]
    for name, values in comparison.differences.items():
        texts = [one_line(format_condition(value)) for value in values]
        yield f"differs: {one_line(name)}: {texts[0]} -> {texts[1]}"
    yield ""
    yield from _result_lines(comparison)
    yield ""
    yield f"verdicts: {wording.summarize_verdicts(comparison)}; all tasks pooled: {comparison.suite.verdict}"
    yield from _reason_lines(comparison)
    yield from _change_lines(comparison)
    if incidents := wording.incidents_of(comparison.suite, comparison):
        yield "incidents: " + "; ".join(f"{one_line(name)} {first} -> {second}" for name, first, second in incidents)
    if comparison.gaps is not None and (gap_text := wording.describe_gaps(comparison.gaps)) is not None:
        yield gap_text
    yield from (f"note: {one_line(note, MAX_NOTE_CHARS)}" for note in comparison.notes)
    if comparison.detail is not None:
        yield ""
        yield "Beyond the verdict (these figures do not change it):"
        yield from _table_lines([DETAIL_HEAD, *wording.detail_rows(comparison)])
        yield from wording.suite_detail_lines(comparison.detail)
    yield ""
    yield " ".join(comparison.limits)


def _describe_conditions(arm: Arm) -> str:
    """Join the short conditions for the line of a side."""
    known = {name: one_line(format_condition(value)) for name, value in arm.conditions.items()}
    labels = (("mode", ""), ("provider", ""), ("model", "model "), ("k", "k "), ("harnessVersion", "harness "))
    return ", ".join(f"{label}{known[name]}" for name, label in labels if name in known)


def _result_lines(comparison: Comparison) -> Iterator[str]:
    tasks = (*comparison.tasks, comparison.suite)
    metrics = tuple(metric for metric in COLUMNS if any(task.deltas[metric].delta is not None for task in tasks))
    head = (*HEAD, *(COLUMNS[metric] for metric in metrics), "COMPACTED")
    rows = [head, *wording.result_rows(comparison, whole=f"all {len(comparison.tasks)}", metrics=metrics)]
    if not any(row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    return _table_lines(rows)


def _reason_lines(comparison: Comparison) -> Iterator[str]:
    """Yield each reason once, with its tasks."""
    reasons: dict[str, list[str]] = {}
    for task in comparison.tasks:
        if task.why is not None:
            reasons.setdefault(f"{task.verdict}: {task.why}", []).append(task.id)
    for reason, tasks in list(reasons.items())[:10]:
        yield f"{one_line(reason, 500)} ({list_names(map(one_line, tasks), 3)})"
    if len(reasons) > 10:
        yield f"and {len(reasons) - 10} more reasons: --json lists them all"


def _change_lines(comparison: Comparison) -> Iterator[str]:
    for metric in (*MEASURED, *ESTIMATED):
        delta = comparison.suite.deltas[metric]
        label = wording.LABELS[metric][0] + (" (estimated)" if metric in ESTIMATED else "")
        if delta.baseline is None and delta.candidate is None and metric in ESTIMATED:
            continue
        sides = f"{wording.format_figure(metric, delta.baseline)} -> {wording.format_figure(metric, delta.candidate)}"
        change = wording.format_change(metric, delta) if delta.why is None else one_line(delta.why, 500)
        yield f"{label}: {sides} ({change})"


def _table_lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield from align_rows([[one_line(cell) for cell in row] for row in rows])
