"""The Markdown format of lab reports, `report.md`, without ids and times; names and values of others are escaped."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.lab.report import wording
from orchestrator.lab.report.model import CapabilityReport, LabReport
from orchestrator.lab.report.notes import list_limits
from orchestrator.reports.tables import draw_table
from orchestrator.text import escape_markdown

MAX_SENTENCE_CHARS = 2000
"""Characters after which a sentence is cut."""


def render_markdown(report: LabReport) -> str:
    """Render the file's content."""
    return "\n".join(_markdown_lines(report)) + "\n"


def _markdown_lines(report: LabReport) -> Iterator[str]:
    facts = report.facts
    yield f"# Lab {_escape_note(facts.lab)} {_escape_note(facts.version)}"
    yield ""
    yield f"{_escape_note(wording.format_headline(facts))}."
    yield ""
    yield f"{_escape_note(wording.format_summary(report))}."
    yield ""
    if report.notes:
        yield from (f"- {_escape_note(note)}" for note in report.notes)
        yield ""
    for capability in report.capabilities:
        yield from _capability_lines(capability, report)
    if report.comparisons:
        yield "## Targets on identical cases"
        yield ""
        yield from (f"- {_escape_note(wording.format_comparison(comparison))}" for comparison in report.comparisons)
        yield ""
    if (spent := wording.format_spent(facts)) is not None:
        yield f"{_escape_note(spent)}."
        yield ""
    yield "## Limits"
    yield ""
    yield from (f"- {_escape_note(limit)}" for limit in list_limits(report))


def _capability_lines(capability: CapabilityReport, report: LabReport) -> Iterator[str]:
    yield f"## {_escape_note(capability.name)}"
    yield ""
    rows = [wording.format_row(row, report.facts) for row in capability.rows]
    yield from draw_table([head.capitalize() for head in wording.HEAD], rows)
    if (few := wording.format_few_times(capability)) is not None:
        yield f"{_escape_note(few)}."
        yield ""
    confident = wording.list_rows_with_confidence(capability)
    if confident:
        yield "### Reliability"
        yield ""
        heads = [head.capitalize() for head in wording.BINS_HEAD]
        yield from draw_table(heads, (line for row in confident for line in wording.list_bin_rows(row)))
        yield from (f"- {_escape_note(wording.format_calibration(row))}" for row in confident)
        yield ""
    if capability.failing:
        yield "### Failing"
        yield ""
        for failing in capability.failing:
            yield f"- {_escape_note(wording.format_failing(failing))}"
            for broken in failing.broken:
                why, *rest = wording.list_broken_rule_lines(broken, failing.judged)
                yield f"  - {_escape_note(why)}"
                yield from (f"    - {_escape_note(line)}" for line in rest)
            yield from (f"  - {_escape_note(line)}" for line in wording.list_reason_lines(failing))
        yield ""
    for title, lines in (
        ("Unstable", [wording.format_unstable(unstable) for unstable in capability.unstable]),
        ("Skipped", [wording.format_skipped(skipped) for skipped in capability.skipped]),
    ):
        if lines:
            yield f"### {title}"
            yield ""
            yield from (f"- {_escape_note(line)}" for line in lines)
            yield ""


def _escape_note(text: str) -> str:
    """Escape a sentence, which may contain names and values of others."""
    return escape_markdown(text, MAX_SENTENCE_CHARS)
