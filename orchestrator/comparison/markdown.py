"""`comparison.md`: the comparison as Markdown. Names are escaped, so that none becomes markup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from orchestrator.comparison import wording
from orchestrator.comparison.model import ESTIMATED, MEASURED, Comparison, Metric
from orchestrator.reports.phrases import format_condition
from orchestrator.reports.tables import draw_section
from orchestrator.text import escape_markdown

MAX_NOTE_CHARS = 2000
"""Characters of a note that are printed."""


def render_markdown(comparison: Comparison) -> str:
    """Return the file's content."""
    return "\n".join(_markdown_lines(comparison)) + "\n"


def _markdown_lines(comparison: Comparison) -> Iterator[str]:
    before, after = comparison.baseline, comparison.candidate
    yield f"# {escape_markdown(before.suite_id)} {escape_markdown(before.suite_version)}: candidate against baseline"
    yield ""
    yield f"Baseline {escape_markdown(before.name, 1000)}, candidate {escape_markdown(after.name, 1000)}."
    yield f"Tasks: {wording.summarize_verdicts(comparison)}; all tasks pooled: {comparison.suite.verdict}."
    yield ""
    if comparison.notes:
        yield from (f"- {escape_markdown(note, MAX_NOTE_CHARS)}" for note in comparison.notes)
        yield ""
    yield from _table_section(
        "What differs",
        ("Condition", "Baseline", "Candidate"),
        (
            (name, format_condition(first), format_condition(second))
            for name, (first, second) in comparison.differences.items()
        ),
    )
    yield from _table_section(
        "Results",
        ("Task", "Baseline", "Candidate", "Points", "Verdict", "Compacted"),
        wording.result_rows(comparison, whole="all", metrics=()),
    )
    reasons = [(task.id, task.verdict, task.why) for task in comparison.tasks if task.why is not None]
    yield from _table_section("Why no direction", ("Task", "Verdict", "Why"), reasons)
    yield from _table_section(
        "Measured", ("Figure", "Baseline", "Candidate", "Difference"), _figure_rows(comparison, MEASURED)
    )
    yield from _table_section(
        "Estimated", ("Figure", "Baseline", "Candidate", "Difference"), _figure_rows(comparison, ESTIMATED)
    )
    yield from _table_section(
        "Incidents",
        ("Incident", "Baseline", "Candidate"),
        ((name, str(first), str(second)) for name, first, second in wording.incidents_of(comparison.suite, comparison)),
    )
    if comparison.gaps is not None and (gap_text := wording.describe_gaps(comparison.gaps)) is not None:
        yield f"{gap_text[0].upper()}{gap_text[1:]}."
        yield ""
    if comparison.detail is not None:
        yield from _table_section(
            "Beyond the verdict",
            ("Task", "Difference (95 % Newcombe)", "Fisher p", "Holm p", "Repetitions needed"),
            wording.detail_rows(comparison),
        )
        yield from (
            f"- {escape_markdown(line, MAX_NOTE_CHARS)}" for line in wording.suite_detail_lines(comparison.detail)
        )
        yield ""
    yield "## Limits"
    yield ""
    yield from (f"- {escape_markdown(limit, MAX_NOTE_CHARS)}" for limit in comparison.limits)


def _figure_rows(comparison: Comparison, metrics: Iterable[Metric]) -> Iterator[Sequence[str]]:
    for metric in metrics:
        delta = comparison.suite.deltas[metric]
        if delta.baseline is None and delta.candidate is None and metric in ESTIMATED:
            continue
        change = delta.why if delta.why is not None else wording.format_change(metric, delta)
        sides = wording.format_figure(metric, delta.baseline), wording.format_figure(metric, delta.candidate)
        yield wording.LABELS[metric][0], *sides, change


def _table_section(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table under a heading; nothing if there are no rows."""
    listed = list(rows)
    if listed:
        yield from draw_section(title, head, listed)
