"""`report.md`: a lab's report for people. Holds no id and no time; whatever others wrote stays text."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.lab.report import wording
from orchestrator.lab.report.model import CapabilityReport, LabReport
from orchestrator.lab.report.notes import limits_of
from orchestrator.reports.tables import draw_table
from orchestrator.text import escaped

LONGEST = 2000
"""Characters of a sentence."""


def text(report: LabReport) -> str:
    """The file's content."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: LabReport) -> Iterator[str]:
    facts = report.facts
    yield f"# Lab {_note(facts.lab)} {_note(facts.version)}"
    yield ""
    yield f"{_note(wording.headline(facts))}."
    yield ""
    yield f"{_note(wording.summary(report))}."
    yield ""
    if report.notes:
        yield from (f"- {_note(note)}" for note in report.notes)
        yield ""
    for capability in report.capabilities:
        yield from _capability(capability, report)
    if report.comparisons:
        yield "## Targets on identical cases"
        yield ""
        yield from (f"- {_note(wording.comparison(one))}" for one in report.comparisons)
        yield ""
    if (spent := wording.ledger(facts)) is not None:
        yield f"{_note(spent)}."
        yield ""
    yield "## Limits"
    yield ""
    yield from (f"- {_note(limit)}" for limit in limits_of(report))


def _capability(capability: CapabilityReport, report: LabReport) -> Iterator[str]:
    yield f"## {_note(capability.name)}"
    yield ""
    rows = [wording.row(row, report.facts) for row in capability.rows]
    yield from draw_table([head.capitalize() for head in wording.HEAD], rows)
    if (few := wording.few_times(capability)) is not None:
        yield f"{_note(few)}."
        yield ""
    spoken = wording.spoken(capability)
    if spoken:
        yield "### Reliability"
        yield ""
        heads = [head.capitalize() for head in wording.BINS_HEAD]
        yield from draw_table(heads, (line for row in spoken for line in wording.bins(row)))
        yield from (f"- {_note(wording.calibration(row))}" for row in spoken)
        yield ""
    if capability.failing:
        yield "### Failing"
        yield ""
        for failing in capability.failing:
            yield f"- {_note(wording.failing(failing))}"
            for broken in failing.broken:
                why, *rest = wording.broken(broken, failing.judged)
                yield f"  - {_note(why)}"
                yield from (f"    - {_note(line)}" for line in rest)
            yield from (f"  - {_note(line)}" for line in wording.reasons(failing))
        yield ""
    for title, lines in (
        ("Unstable", [wording.unstable(one) for one in capability.unstable]),
        ("Skipped", [wording.skipped(one) for one in capability.skipped]),
    ):
        if lines:
            yield f"### {title}"
            yield ""
            yield from (f"- {_note(line)}" for line in lines)
            yield ""


def _note(text: str) -> str:
    """A sentence of ours, which may hold names and values of others."""
    return escaped(text, LONGEST)
