"""The comparison as `compare` prints it: plain lines, in which nothing of others' moves a cursor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchestrator.comparison import wording
from orchestrator.comparison.arm import Arm
from orchestrator.comparison.model import ESTIMATED, MEASURED, Comparison, Metric
from orchestrator.reports.phrases import PLAYING, format_condition
from orchestrator.text import align_rows, list_names, one_line

COLUMNS: dict[Metric, str] = {
    "tokensPerRun": "TOKENS/RUN",
    "wallMsMedian": "WALL",
    "cachedInputRatio": "CACHED",
    "costUsdPerRun": "COST/RUN",
}
"""Changes that have a column of their own, where any task has one."""
HEAD = ("TASK", "BASELINE", "CANDIDATE", "POINTS", "VERDICT")
BEYOND_HEAD = ("TASK", "DIFFERENCE (95 % NEWCOMBE)", "FISHER P", "HOLM P", "REPETITIONS NEEDED")
LONGEST = 2000
"""Characters of a note."""


def render_lines(found: Comparison) -> Iterator[str]:
    """Every line, harmless."""
    before, after = found.baseline, found.candidate
    yield f"{one_line(before.suite_id)} {one_line(before.suite_version)}: candidate against baseline"
    for name, arm in (("baseline", before), ("candidate", after)):
        yield f"{name:<9}  {one_line(arm.name, 1000)}: {_describe_conditions(arm)}"
    if found.replay:
        yield PLAYING[before.mode]
    for name, values in found.differences.items():
        told = [one_line(format_condition(value)) for value in values]
        yield f"differs: {one_line(name)}: {told[0]} -> {told[1]}"
    yield ""
    yield from _result_lines(found)
    yield ""
    yield f"verdicts: {wording.summarize_verdicts(found)}; all tasks pooled: {found.suite.verdict}"
    yield from _reason_lines(found)
    yield from _change_lines(found)
    if incidents := wording.incidents_of(found.suite, found):
        yield "incidents: " + "; ".join(f"{one_line(name)} {one} -> {other}" for name, one, other in incidents)
    if found.gaps is not None and (apart := wording.describe_gaps(found.gaps)) is not None:
        yield apart
    yield from (f"note: {one_line(note, LONGEST)}" for note in found.notes)
    if found.beyond is not None:
        yield ""
        yield "Beyond the verdict (it stays as it is):"
        yield from _table_lines([BEYOND_HEAD, *wording.beyond_rows(found)])
        yield from wording.suite_beyond(found.beyond)
    yield ""
    yield " ".join(found.limits)


def _describe_conditions(arm: Arm) -> str:
    """The short ones, on the side's line."""
    known = {name: one_line(format_condition(value)) for name, value in arm.conditions.items()}
    labels = (("mode", ""), ("provider", ""), ("model", "model "), ("k", "k "), ("harnessVersion", "harness "))
    return ", ".join(f"{label}{known[name]}" for name, label in labels if name in known)


def _result_lines(found: Comparison) -> Iterator[str]:
    tasks = (*found.tasks, found.suite)
    metrics = tuple(metric for metric in COLUMNS if any(task.deltas[metric].delta is not None for task in tasks))
    head = (*HEAD, *(COLUMNS[metric] for metric in metrics), "COMPACTED")
    rows = [head, *wording.result_rows(found, whole=f"all {len(found.tasks)}", metrics=metrics)]
    if not any(row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    return _table_lines(rows)


def _reason_lines(found: Comparison) -> Iterator[str]:
    """Each reason once, with the tasks it is about counted."""
    reasons: dict[str, list[str]] = {}
    for task in found.tasks:
        if task.why is not None:
            reasons.setdefault(f"{task.verdict}: {task.why}", []).append(task.id)
    for reason, tasks in list(reasons.items())[:10]:
        yield f"{one_line(reason, 500)} ({list_names(map(one_line, tasks), 3)})"
    if len(reasons) > 10:
        yield f"and {len(reasons) - 10} more reasons: --json tells them all"


def _change_lines(found: Comparison) -> Iterator[str]:
    for metric in (*MEASURED, *ESTIMATED):
        delta = found.suite.deltas[metric]
        label = wording.LABELS[metric][0] + (" (estimated)" if metric in ESTIMATED else "")
        if delta.baseline is None and delta.candidate is None and metric in ESTIMATED:
            continue
        sides = f"{wording.format_figure(metric, delta.baseline)} -> {wording.format_figure(metric, delta.candidate)}"
        told = wording.format_change(metric, delta) if delta.why is None else one_line(delta.why, 500)
        yield f"{label}: {sides} ({told})"


def _table_lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield from align_rows([[one_line(cell) for cell in row] for row in rows])
