"""`comparison.md`: the comparison for people. Whatever a name holds stays text: nothing in it becomes markup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from orchestrator.comparison import wording
from orchestrator.comparison.model import ESTIMATED, MEASURED, Comparison, Metric
from orchestrator.reports.phrases import format_condition
from orchestrator.reports.tables import draw_section
from orchestrator.text import escape_markdown

LONGEST = 2000
"""Characters of a note."""


def render_markdown(found: Comparison) -> str:
    """The file's content."""
    return "\n".join(_markdown_lines(found)) + "\n"


def _markdown_lines(found: Comparison) -> Iterator[str]:
    before, after = found.baseline, found.candidate
    yield f"# {escape_markdown(before.suite_id)} {escape_markdown(before.suite_version)}: candidate against baseline"
    yield ""
    yield f"Baseline {escape_markdown(before.name, 1000)}, candidate {escape_markdown(after.name, 1000)}."
    yield f"Tasks: {wording.summarize_verdicts(found)}; all tasks pooled: {found.suite.verdict}."
    yield ""
    if found.notes:
        yield from (f"- {escape_markdown(note, LONGEST)}" for note in found.notes)
        yield ""
    yield from _table_section(
        "What differs",
        ("Condition", "Baseline", "Candidate"),
        ((name, format_condition(one), format_condition(other)) for name, (one, other) in found.differences.items()),
    )
    yield from _table_section(
        "Results",
        ("Task", "Baseline", "Candidate", "Points", "Verdict", "Compacted"),
        wording.result_rows(found, whole="all", metrics=()),
    )
    reasons = [(task.id, task.verdict, task.why) for task in found.tasks if task.why is not None]
    yield from _table_section("Why no direction", ("Task", "Verdict", "Why"), reasons)
    yield from _table_section(
        "Measured", ("Figure", "Baseline", "Candidate", "Difference"), _figure_rows(found, MEASURED)
    )
    yield from _table_section(
        "Estimated", ("Figure", "Baseline", "Candidate", "Difference"), _figure_rows(found, ESTIMATED)
    )
    yield from _table_section(
        "Incidents",
        ("Incident", "Baseline", "Candidate"),
        ((name, str(one), str(other)) for name, one, other in wording.incidents_of(found.suite, found)),
    )
    if found.gaps is not None and (apart := wording.describe_gaps(found.gaps)) is not None:
        yield f"{apart[0].upper()}{apart[1:]}."
        yield ""
    if found.beyond is not None:
        yield from _table_section(
            "Beyond the verdict",
            ("Task", "Difference (95 % Newcombe)", "Fisher p", "Holm p", "Repetitions needed"),
            wording.beyond_rows(found),
        )
        yield from (f"- {escape_markdown(line, LONGEST)}" for line in wording.suite_beyond(found.beyond))
        yield ""
    yield "## Limits"
    yield ""
    yield from (f"- {escape_markdown(limit, LONGEST)}" for limit in found.limits)


def _figure_rows(found: Comparison, metrics: Iterable[Metric]) -> Iterator[Sequence[str]]:
    for metric in metrics:
        delta = found.suite.deltas[metric]
        if delta.baseline is None and delta.candidate is None and metric in ESTIMATED:
            continue
        told = delta.why if delta.why is not None else wording.format_change(metric, delta)
        sides = wording.format_figure(metric, delta.baseline), wording.format_figure(metric, delta.candidate)
        yield wording.LABELS[metric][0], *sides, told


def _table_section(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table under a heading; nothing where it has no rows."""
    every = list(rows)
    if not every:
        return
    yield from draw_section(title, head, every)
