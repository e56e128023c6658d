"""Wording of a suite's figures, the same in every format. A missing figure is `n/a`."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.reports.phrases import NOT_AVAILABLE, format_percent
from orchestrator.suite.report.model import Figures, Report, TaskReport
from orchestrator.text import format_count

PRINCIPLE = "Every figure here was measured under the conditions below and means nothing without them."

LIMITS = (
    "Success rates are over judged runs (pass, fail, budget_exceeded), with a 95 % Wilson interval.",
    "Runs that ended in an error or were skipped are in no rate; they are counted apart, by cause.",
    "The rate over all tasks pools their runs: it is about these tasks, not about tasks like these.",
    "Repetitions are assumed independent. The seed orders the runs; the provider never receives it.",
    "Token figures count the turns that made up the answers, without compaction; the total spent counts every request.",
)
"""Limits of the figures, which every readable report states."""


def format_rate(figures: Figures) -> str:
    """Format the success rate with its interval, if there is one: `60.0 % [23.1 %, 88.2 %]`."""
    if figures.wilson is None:
        return format_percent(figures.success_rate)
    low, high = figures.wilson
    return f"{format_percent(figures.success_rate)} [{format_percent(low)}, {format_percent(high)}]"


def format_passed(figures: Figures) -> str:
    """Format passes and judged runs: `3/5`."""
    return f"{figures.passes}/{figures.judged}"


def format_pass_at(task: TaskReport) -> str:
    """Format whether at least one judged run passed: `pass@5 yes`."""
    return _reliability_answer("pass@", task.figures.judged, task.pass_at_k)


def format_pass_hat(task: TaskReport) -> str:
    """Format whether all judged runs passed: `pass^5 no`."""
    return _reliability_answer("pass^", task.figures.judged, task.pass_hat_k)


def _reliability_answer(label: str, judged: int, holds: bool | None) -> str:
    return NOT_AVAILABLE if holds is None else f"{label}{judged} {'yes' if holds else 'no'}"


def format_reliability(task: TaskReport) -> str:
    """Format the reliability class, with a remark on low power: `flaky, low power`."""
    word = task.reliability or NOT_AVAILABLE
    return f"{word}, low power" if task.figures.low_power and task.reliability else word


def summarize_reliability(report: Report) -> str:
    """Count tasks by reliability class: `2 solved, 1 flaky`."""
    return ", ".join(
        f"{report.reliability[word]} {'without a judged run' if word == 'none' else word}"
        for word in ("solved", "flaky", "unsolved", "none")
        if report.reliability.get(word)
    )


def format_cached(figures: Figures) -> str:
    """Format the share of input served from a cache, with the number of runs that reported it."""
    if figures.cached is None:
        return "not reported"
    return (
        f"{format_percent(figures.cached.ratio)} ({figures.cached.runs_reporting} of "
        f"{format_count(figures.judged, 'run')})"
    )


def format_outcomes(figures: Figures) -> str:
    """Count judged runs that did not pass, by reason: `2 fail(verifier), 1 budget_exceeded(maxTurns)`."""
    parts = [f"{number} fail({reason})" for reason, number in figures.failed.items()]
    parts += [f"{number} budget_exceeded({reason})" for reason, number in figures.budget_exceeded.items()]
    return ", ".join(parts)


def format_left_out(figures: Figures) -> str:
    """Count runs in no rate, by cause: `3 error(provider), 1 skipped(budget), 2 unfinished`."""
    parts = [f"{number} error({reason})" for reason, number in figures.errored.items()]
    parts += [f"{number} skipped({reason})" for reason, number in figures.skipped.items()]
    if figures.unfinished:
        parts.append(f"{figures.unfinished} unfinished")
    return ", ".join(parts)


def task_name(task: TaskReport) -> str:
    """Return the name of the task, with its variant if it has one: `task:variant`."""
    return f"{task.id}:{task.variant}" if task.variant else task.id


def result_rows(report: Report, *, whole: str) -> Iterator[tuple[str, ...]]:
    """Yield the table of results: a row per task, and one for all tasks, labelled *whole*.

    Its columns: task, passed, rate, pass@n, pass^n, reliability, not passed, left out.
    """
    for task in report.tasks:
        yield _result_row(
            task_name(task), task.figures, format_pass_at(task), format_pass_hat(task), format_reliability(task)
        )
    yield _result_row(whole, report.summary, "", "", summarize_reliability(report))


def _result_row(name: str, figures: Figures, at: str, hat: str, word: str) -> tuple[str, ...]:
    return (
        name,
        format_passed(figures),
        format_rate(figures),
        at,
        hat,
        word,
        format_outcomes(figures),
        format_left_out(figures),
    )
