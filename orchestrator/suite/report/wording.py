"""A suite's figures in words, the same in every format. A missing figure is `n/a`."""

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
    "Token figures count the turns that made up the answers, without compaction; the ledger counts every request.",
)
"""What every readable report says about its own reach."""


def format_rate(figures: Figures) -> str:
    """`60.0 % [23.1 %, 88.2 %]`, or without the interval where there is none."""
    if figures.wilson is None:
        return format_percent(figures.success_rate)
    low, high = figures.wilson
    return f"{format_percent(figures.success_rate)} [{format_percent(low)}, {format_percent(high)}]"


def format_passed(figures: Figures) -> str:
    """Passes and their denominator: `3/5`."""
    return f"{figures.passes}/{figures.judged}"


def format_pass_at(task: TaskReport) -> str:
    """`pass@5 yes`: at least one of the judged runs passed."""
    return _reliability_answer("pass@", task.figures.judged, task.pass_at_k)


def format_pass_hat(task: TaskReport) -> str:
    """`pass^5 no`: all of the judged runs passed."""
    return _reliability_answer("pass^", task.figures.judged, task.pass_hat_k)


def _reliability_answer(label: str, judged: int, holds: bool | None) -> str:
    return NOT_AVAILABLE if holds is None else f"{label}{judged} {'yes' if holds else 'no'}"


def format_reliability(task: TaskReport) -> str:
    """`solved`, `flaky` or `unsolved`, and whether there were too few runs to say so."""
    word = task.reliability or NOT_AVAILABLE
    return f"{word}, low power" if task.figures.low_power and task.reliability else word


def summed_reliability(report: Report) -> str:
    """`2 solved, 1 flaky`."""
    return ", ".join(
        f"{report.reliability[word]} {'without a judged run' if word == 'none' else word}"
        for word in ("solved", "flaky", "unsolved", "none")
        if report.reliability.get(word)
    )


def format_cached(figures: Figures) -> str:
    """The share of input served from a cache, with the runs it is about."""
    if figures.cached is None:
        return "not reported"
    return (
        f"{format_percent(figures.cached.ratio)} ({figures.cached.runs_reporting} of "
        f"{format_count(figures.judged, 'run')})"
    )


def format_outcomes(figures: Figures) -> str:
    """Judged runs that did not pass, by reason: `2 fail(verifier), 1 budget_exceeded(maxTurns)`."""
    parts = [f"{number} fail({reason})" for reason, number in figures.failed.items()]
    parts += [f"{number} budget_exceeded({reason})" for reason, number in figures.budget_exceeded.items()]
    return ", ".join(parts)


def format_left_out(figures: Figures) -> str:
    """The runs in no rate, by cause: `3 error(provider), 1 skipped(budget), 2 unfinished`."""
    parts = [f"{number} error({reason})" for reason, number in figures.errored.items()]
    parts += [f"{number} skipped({reason})" for reason, number in figures.skipped.items()]
    if figures.unfinished:
        parts.append(f"{figures.unfinished} unfinished")
    return ", ".join(parts)


def task_name(task: TaskReport) -> str:
    """The task, with its variant where there is one."""
    return f"{task.id}:{task.variant}" if task.variant else task.id


def result_rows(report: Report, *, whole: str) -> Iterator[tuple[str, ...]]:
    """The table of results, a row per task and one for all of them, which is called *whole*.

    Its columns: task, passed, rate, pass@n, pass^n, reliability, not passed, left out.
    """
    for task in report.tasks:
        yield _result_row(
            task_name(task), task.figures, format_pass_at(task), format_pass_hat(task), format_reliability(task)
        )
    yield _result_row(whole, report.summary, "", "", summed_reliability(report))


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
