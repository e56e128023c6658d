"""`report.md`: the report for people. Whatever a name or a message holds stays text: nothing in it becomes markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchestrator.reports import phrases
from orchestrator.reports.tables import draw_section
from orchestrator.suite.report import wording
from orchestrator.suite.report.model import Figures, Report
from orchestrator.text import counted, escaped


def text(report: Report) -> str:
    """The file's content."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    conditions = report.conditions
    yield f"# {escaped(str(conditions.get('suiteId')))} {escaped(str(conditions.get('suiteVersion')))}"
    yield ""
    yield f"Sweep {escaped(report.sweep)}. {_headline(report)}"
    yield ""
    yield wording.PRINCIPLE
    yield ""
    if report.notes:
        yield from (f"- {_note(note)}" for note in report.notes)
        yield ""
    yield from draw_section("Conditions", ("Condition", "Value"), _conditions(report))
    yield from draw_section(
        "Results",
        ("Task", "Passed", "Success rate (95 % Wilson)", "pass@n", "pass^n", "Reliability", "Not passed", "Left out"),
        wording.results(report, whole="all"),
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
        _measured(report),
    )
    compactions = list(_compactions(report))
    if compactions:
        yield from draw_section(
            "Compaction, in no figure above", ("Task", "Runs", "Calls", "Input tokens", "Output tokens"), compactions
        )
    if any(figures.cost_usd is not None for _, figures in _every(report)):
        yield from draw_section("Estimated", ("Task", "Judged", "Cost"), _estimated(report))
        rates = conditions.get("inputRate"), conditions.get("outputRate")
        yield (
            f"At {escaped(str(rates[0]))} USD per million input tokens and {escaped(str(rates[1]))} per million output "
            "tokens; prices of cached and reasoning tokens are ignored, and what compaction took is not in it."
        )
        yield ""
    yield from draw_section(
        "Verifiers", ("Task", "Verifier", "Kind", "Pass", "Fail", "Error", "Tampered"), _verifiers(report)
    )
    errors = list(_errors(report))
    if errors:
        yield from draw_section("Errors", ("Task", "Cause", "Runs", "Example"), errors)
    incidents = [(name, str(times)) for name, times in report.summary.incidents.items()]
    if incidents:
        yield from draw_section("Incidents", ("Incident", "Times"), incidents)
    yield "## Limits"
    yield ""
    yield from (f"- {_note(limit)}" for limit in wording.LIMITS)


def _note(note: str) -> str:
    """A sentence of ours, which may hold names of others; longer than a cell may be."""
    return escaped(note, 2000)


def _headline(report: Report) -> str:
    summary = report.summary
    return (
        f"Passed {wording.passed(summary)} judged runs: {_note(wording.rate(summary))}, "
        f"over {counted(len(report.tasks), 'task')} ({escaped(wording.summed_reliability(report))})."
    )


def _conditions(report: Report) -> Iterator[Sequence[str]]:
    for name, value in report.conditions.items():
        yield name, phrases.condition(value)


def _every(report: Report) -> Iterator[tuple[str, Figures]]:
    """The figures of each task, then those of all together."""
    yield from ((wording.task_name(task), task.figures) for task in report.tasks)
    yield "all", report.summary


def _measured(report: Report) -> Iterator[Sequence[str]]:
    for name, figures in _every(report):
        measured = figures.measured
        yield (
            name,
            str(figures.judged),
            phrases.seconds(measured.wall_median_ms),
            phrases.squared_seconds(measured.wall_variance_ms2),
            phrases.count(measured.input_tokens),
            phrases.count(measured.output_tokens),
            phrases.count(measured.tokens_per_success),
            phrases.seconds(measured.wall_ms_per_success),
            wording.cached(figures),
        )


def _compactions(report: Report) -> Iterator[Sequence[str]]:
    for name, figures in _every(report):
        found = figures.compaction
        if found is not None:
            tokens = phrases.count(found.input_tokens), phrases.count(found.output_tokens)
            yield name, f"{found.runs} of {figures.judged}", str(found.calls), *tokens


def _estimated(report: Report) -> Iterator[Sequence[str]]:
    for name, figures in _every(report):
        yield name, str(figures.judged), phrases.usd(figures.cost_usd)


def _verifiers(report: Report) -> Iterator[Sequence[str]]:
    for task in report.tasks:
        for said in task.verifiers:
            numbers = (said.passed, said.failed, said.errored, said.tampered)
            yield wording.task_name(task), said.id, said.kind, *map(str, numbers)


def _errors(report: Report) -> Iterator[Sequence[str]]:
    for task in report.tasks:
        for cause, number in task.figures.errored.items():
            yield wording.task_name(task), cause, str(number), task.examples.get(cause, "")
