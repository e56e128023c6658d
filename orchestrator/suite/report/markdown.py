"""`report.md`: the report as Markdown. Names and messages are escaped, so that none becomes markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchestrator.reports import phrases
from orchestrator.reports.tables import draw_section
from orchestrator.suite.report import wording
from orchestrator.suite.report.model import Figures, Report
from orchestrator.text import escape_markdown, format_count


def render_markdown(report: Report) -> str:
    """Return the file's content."""
    return "\n".join(_markdown_lines(report)) + "\n"


def _markdown_lines(report: Report) -> Iterator[str]:
    conditions = report.conditions
    yield f"# {escape_markdown(str(conditions.get('suiteId')))} {escape_markdown(str(conditions.get('suiteVersion')))}"
    yield ""
    yield f"Sweep {escape_markdown(report.sweep)}. {_headline_text(report)}"
    yield ""
    yield wording.PRINCIPLE
    yield ""
    if report.notes:
        yield from (f"- {_escape_note(note)}" for note in report.notes)
        yield ""
    yield from draw_section("Conditions", ("Condition", "Value"), _condition_rows(report))
    yield from draw_section(
        "Results",
        ("Task", "Passed", "Success rate (95 % Wilson)", "pass@n", "pass^n", "Reliability", "Not passed", "Left out"),
        wording.result_rows(report, whole="all"),
    )
    yield from draw_section(
        "Measured",
        (
            "Task",
            "Judged",
            "Wall, median",
            "Wall, variance",
            "Input tokens",
            "Output tokens",
            "Tokens per success",
            "Time per success",
            "Cached input",
        ),
        _measured_rows(report),
    )
    compactions = list(_compaction_rows(report))
    if compactions:
        yield from draw_section(
            "Compaction, in no figure above", ("Task", "Runs", "Calls", "Input tokens", "Output tokens"), compactions
        )
    if any(figures.cost_usd is not None for _, figures in _all_figures(report)):
        yield from draw_section("Estimated", ("Task", "Judged", "Cost"), _estimate_rows(report))
        rates = conditions.get("inputRate"), conditions.get("outputRate")
        yield (
            f"At {escape_markdown(str(rates[0]))} USD per million input tokens and "
            f"{escape_markdown(str(rates[1]))} per million output "
            "tokens; prices of cached and reasoning tokens are ignored, and compaction is not included."
        )
        yield ""
    yield from draw_section(
        "Verifiers", ("Task", "Verifier", "Kind", "Pass", "Fail", "Error", "Tampered"), _verifier_rows(report)
    )
    errors = list(_error_rows(report))
    if errors:
        yield from draw_section("Errors", ("Task", "Cause", "Runs", "Example"), errors)
    incidents = [(name, str(times)) for name, times in report.summary.incidents.items()]
    if incidents:
        yield from draw_section("Incidents", ("Incident", "Times"), incidents)
    yield "## Limits"
    yield ""
    yield from (f"- {_escape_note(limit)}" for limit in wording.LIMITS)


def _escape_note(note: str) -> str:
    """Escape a sentence, which may contain names; it may be longer than a cell."""
    return escape_markdown(note, 2000)


def _headline_text(report: Report) -> str:
    summary = report.summary
    return (
        f"Passed {wording.format_passed(summary)} judged runs: {_escape_note(wording.format_rate(summary))}, "
        f"over {format_count(len(report.tasks), 'task')} ({escape_markdown(wording.summarize_reliability(report))})."
    )


def _condition_rows(report: Report) -> Iterator[Sequence[str]]:
    for name, value in report.conditions.items():
        yield name, phrases.format_condition(value)


def _all_figures(report: Report) -> Iterator[tuple[str, Figures]]:
    """Yield the figures of each task, then those of all tasks together."""
    yield from ((wording.task_name(task), task.figures) for task in report.tasks)
    yield "all", report.summary


def _measured_rows(report: Report) -> Iterator[Sequence[str]]:
    for name, figures in _all_figures(report):
        measured = figures.measured
        yield (
            name,
            str(figures.judged),
            phrases.format_seconds(measured.wall_median_ms),
            phrases.format_squared_seconds(measured.wall_variance_ms2),
            phrases.format_number(measured.input_tokens),
            phrases.format_number(measured.output_tokens),
            phrases.format_number(measured.tokens_per_success),
            phrases.format_seconds(measured.wall_ms_per_success),
            wording.format_cached(figures),
        )


def _compaction_rows(report: Report) -> Iterator[Sequence[str]]:
    for name, figures in _all_figures(report):
        compaction = figures.compaction
        if compaction is not None:
            tokens = phrases.format_number(compaction.input_tokens), phrases.format_number(compaction.output_tokens)
            yield name, f"{compaction.runs} of {figures.judged}", str(compaction.calls), *tokens


def _estimate_rows(report: Report) -> Iterator[Sequence[str]]:
    for name, figures in _all_figures(report):
        yield name, str(figures.judged), phrases.format_usd(figures.cost_usd)


def _verifier_rows(report: Report) -> Iterator[Sequence[str]]:
    for task in report.tasks:
        for tally in task.verifiers:
            numbers = (tally.passed, tally.failed, tally.errored, tally.tampered)
            yield wording.task_name(task), tally.id, tally.kind, *map(str, numbers)


def _error_rows(report: Report) -> Iterator[Sequence[str]]:
    for task in report.tasks:
        for cause, number in task.figures.errored.items():
            yield wording.task_name(task), cause, str(number), task.examples.get(cause, "")
