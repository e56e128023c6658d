"""Notes to read before the figures: mode, power, and runs left out with their causes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from orchestrator.suite.report import wording
from orchestrator.suite.report.model import Figures, Report, TaskReport
from orchestrator.text import list_names
from store.stats.rates import MIN_JUDGED


def list_notes(report: Report) -> tuple[str, ...]:
    """Return the notes, most important first. Names of tasks are spelled as in the suite."""
    return tuple(_find_notes(report))


def _find_notes(report: Report) -> Iterator[str]:
    if report.replay:
        yield (
            "replay: the model's answers come from a recording. This measures the harness, not the model; "
            "nothing here says anything about model quality, and there are no intervals."
        )
    summary = report.summary
    if summary.left_out:
        causes = wording.format_left_out(summary)
        yield f"{summary.left_out} of {summary.planned} planned runs are in no rate: {causes}."
    weak = [task for task in report.tasks if task.figures.low_power]
    if weak:
        yield (
            f"low power: fewer than {MIN_JUDGED} judged runs for {_join_task_names(weak)}; repeat more often "
            f"before deciding."
        )
    tampered = [task for task in report.tasks if any(verifier.tampered for verifier in task.verifiers)]
    if tampered:
        yield (
            f"tampered: runs of {_join_task_names(tampered)} changed a check file; they were judged with the "
            f"pristine one."
        )
    unreported = [task for task in report.tasks if task.figures.judged and _tokens_missing(task.figures)]
    if unreported:
        priced = "inputRate" in report.conditions
        yield (
            f"usage was not reported in every turn for {_join_task_names(unreported)}; their token figures are omitted"
            f"{', and so are estimates of their cost' if priced else ''}."
        )
    compacted = [task for task in report.tasks if task.figures.compaction is not None]
    if compacted and summary.compaction is not None:
        yield (
            f"the context was compacted in {summary.compaction.runs} of {summary.judged} judged runs, of "
            f"{_join_task_names(compacted)}: after that the model worked from its own summary."
        )
    if isinstance(report.conditions.get("harnessVersion"), list):
        yield "several versions of the harness worked on this sweep."
    answering = report.conditions.get("modelsAnswering", [])
    if len(answering) == 1 and answering[0] != (asked := report.conditions.get("model")):
        yield f"asked for {asked}, answered by {answering[0]}."
    if len(answering) > 1:
        yield f"{len(answering)} different models answered: {', '.join(answering)}."


def _tokens_missing(figures: Figures) -> bool:
    return figures.measured.token_runs < figures.judged


def _join_task_names(tasks: Iterable[TaskReport]) -> str:
    return list_names(map(wording.task_name, tasks))
