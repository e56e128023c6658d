"""`comparison.md`: the comparison for people. Whatever a name holds stays text: nothing in it becomes markup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from orchestrator.comparison import wording
from orchestrator.comparison.model import ESTIMATED, MEASURED, Comparison, Metric
from orchestrator.reports.phrases import condition
from orchestrator.reports.tables import draw_section
from orchestrator.text import escaped

LONGEST = 2000
"""Characters of a note."""


def text(found: Comparison) -> str:
    """The file's content."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Comparison) -> Iterator[str]:
    before, after = found.baseline, found.candidate
    yield f"# {escaped(before.suite_id)} {escaped(before.suite_version)}: candidate against baseline"
    yield ""
    yield f"Baseline {escaped(before.name, 1000)}, candidate {escaped(after.name, 1000)}."
    yield f"Tasks: {wording.verdicts(found)}; all tasks pooled: {found.suite.verdict}."
    yield ""
    if found.notes:
        yield from (f"- {escaped(note, LONGEST)}" for note in found.notes)
        yield ""
    yield from _section(
        "What differs",
        ("Condition", "Baseline", "Candidate"),
        ((name, condition(one), condition(other)) for name, (one, other) in found.differences.items()),
    )
    yield from _section(
        "Results",
        ("Task", "Baseline", "Candidate", "Points", "Verdict", "Compacted"),
        wording.results(found, whole="all", metrics=()),
    )
    reasons = [(task.id, task.verdict, task.why) for task in found.tasks if task.why is not None]
    yield from _section("Why no direction", ("Task", "Verdict", "Why"), reasons)
    yield from _section("Measured", ("Figure", "Baseline", "Candidate", "Difference"), _figures(found, MEASURED))
    yield from _section("Estimated", ("Figure", "Baseline", "Candidate", "Difference"), _figures(found, ESTIMATED))
    yield from _section(
        "Incidents",
        ("Incident", "Baseline", "Candidate"),
        ((name, str(one), str(other)) for name, one, other in wording.incidents_of(found.suite, found)),
    )
    if found.gaps is not None and (apart := wording.gaps(found.gaps)) is not None:
        yield f"{apart[0].upper()}{apart[1:]}."
        yield ""
    if found.beyond is not None:
        yield from _section(
            "Beyond the verdict",
            ("Task", "Difference (95 % Newcombe)", "Fisher p", "Holm p", "Repetitions needed"),
            wording.beyond_rows(found),
        )
        yield from (f"- {escaped(line, LONGEST)}" for line in wording.suite_beyond(found.beyond))
        yield ""
    yield "## Limits"
    yield ""
    yield from (f"- {escaped(limit, LONGEST)}" for limit in found.limits)


def _figures(found: Comparison, metrics: Iterable[Metric]) -> Iterator[Sequence[str]]:
    for metric in metrics:
        delta = found.suite.deltas[metric]
        if delta.baseline is None and delta.candidate is None and metric in ESTIMATED:
            continue
        told = delta.why if delta.why is not None else wording.change(metric, delta)
        sides = wording.figure(metric, delta.baseline), wording.figure(metric, delta.candidate)
        yield wording.LABELS[metric][0], *sides, told


def _section(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table under a heading; nothing where it has no rows."""
    every = list(rows)
    if not every:
        return
    yield from draw_section(title, head, every)
