"""A lab's report as `lab` and `show` print it: drawn on a terminal, plain lines anywhere else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from orchestrator.lab.report import wording
from orchestrator.lab.report.model import CapabilityReport, LabReport
from orchestrator.reports.hints import Hint, propose_commands
from orchestrator.reports.phrases import NOT_BY_ERRORS, PLAYING
from orchestrator.text import aligned, counted, one_line, printable

if TYPE_CHECKING:
    from rich.table import Table

LONGEST = 2000
"""Characters of a sentence."""
DETAILS = 20
"""Failing, unstable and skipped fixtures of a capability that are told; of the rest it is told how many there are."""

UNBOUNDED = 10_000
"""Characters: the width at which a table is as wide as it likes."""
COUNTED = frozenset({"STABLE", "ABSTAIN", "ERROR"})
"""Columns whose counts tell as much as their percentages do."""
PERCENTAGE = re.compile(r" [0-9.]+ %$")
BOUNDS = re.compile(r"\[([0-9.]+) %, ([0-9.]+) %\]")
BETWEEN = re.compile(r" (?=\[)|(?<=[0-9]) (?=\()|(?<=[0-9]) (?=[0-9.]+ %$)")
"""Where a cell is broken on a terminal that is too narrow: between figures, never within one."""

Part = str | list[Sequence[str]]
"""A line, or a table with its head."""


def present(report: LabReport, stream: TextIO, *, directory: Path | None = None, color: bool = True) -> None:
    """Print the report to *stream*; *directory* holds its files."""
    if color and stream.isatty():
        _draw(report, stream, directory)
    else:
        stream.write(printable(plain(report, directory), stream.encoding) + "\n")
    stream.flush()


def plain(report: LabReport, directory: Path | None = None) -> str:
    """The report as plain lines, without a control character but the line ends."""
    found: list[str] = []
    for part in _parts(report, directory):
        found += [part] if isinstance(part, str) else aligned(part)
    return "\n".join(found)


def propose_next(report: LabReport) -> Iterator[Hint]:
    """Propose the commands to run after reading *report*."""
    failing = [one.position for capability in report.capabilities for one in capability.failing]
    return propose_commands(
        report.facts.sweep,
        left=report.again,
        capped=any("budget" in row.skipped for capability in report.capabilities for row in capability.rows),
        errors=_errors(report),
        first_not_passed=min((position for position in failing if position is not None), default=None),
    )


def _parts(report: LabReport, directory: Path | None) -> Iterator[Part]:
    facts = report.facts
    yield _line(f"lab {facts.lab} {facts.version}, sweep {facts.sweep}")
    yield _line(wording.headline(facts))
    if not facts.sampled:
        yield PLAYING[facts.mode]
    for capability in report.capabilities:
        yield ""
        yield _line(f"{capability.name}, {counted(capability.fixtures, 'fixture')}")
        yield [wording.HEAD, *(tuple(map(one_line, wording.row(row, facts))) for row in capability.rows)]
        if (few := wording.few_times(capability)) is not None:
            yield _line(few)
        yield from _below(capability)
    yield ""
    yield _line(wording.summary(report))
    yield from (_line(f"compared: {wording.comparison(one)}") for one in report.comparisons)
    if (spent := wording.ledger(facts)) is not None:
        yield spent
    yield from (_line(f"note: {note}") for note in report.notes)
    if directory is not None:
        yield f"report: {one_line(str(directory), 1000)}/report.md"


def _below(capability: CapabilityReport) -> Iterator[Part]:
    spoken = wording.spoken(capability)
    if spoken:
        rows = [tuple(map(one_line, line)) for row in spoken for line in wording.bins(row)]
        yield [wording.BINS_HEAD, *rows]
        yield from (_line(f"calibration of {wording.calibration(row)}") for row in spoken)
    for failing in capability.failing[:DETAILS]:
        yield _line(f"FAILED {wording.failing(failing)}")
        for broken in failing.broken:
            why, *rest = wording.broken(broken, failing.judged)
            yield _line(why, "  ")
            yield from (_line(line, "    ") for line in rest)
        yield from (_line(line, "  ") for line in wording.reasons(failing))
    if len(capability.failing) > DETAILS:
        yield f"and {len(capability.failing) - DETAILS} more that failed: --json and report.md tell them all"
    yield from _cut("unstable", [wording.unstable(one) for one in capability.unstable])
    yield from _cut("skipped", [wording.skipped(one) for one in capability.skipped])


def _cut(label: str, lines: Sequence[str]) -> Iterator[str]:
    yield from (_line(f"{label}: {line}") for line in lines[:DETAILS])
    if len(lines) > DETAILS:
        yield f"{label}: and {len(lines) - DETAILS} more: --json and report.md tell them all"


def _errors(report: LabReport) -> int:
    """Runs that ended in an error of infrastructure, and that only `resume --errors` runs again."""
    rows = [row for capability in report.capabilities for row in capability.rows]
    causes = [*(row.infrastructure for row in rows), *(row.interrupted for row in rows)]
    return sum(count for one in causes for cause, count in one.items() if cause not in NOT_BY_ERRORS)


def _line(text: str, indent: str = "") -> str:
    return f"{indent}{one_line(text, LONGEST)}"


def _draw(report: LabReport, stream: TextIO, directory: Path | None) -> None:
    from rich.console import Console
    from rich.text import Text

    # lines are left for the terminal to wrap: a command or a path that was broken cannot be copied
    console = Console(file=stream, highlight=False, soft_wrap=True)
    for part in _parts(report, directory):
        if isinstance(part, str):
            console.print(Text(part, style=_style(part)))
        else:
            unbounded = console.options.update_width(UNBOUNDED)
            tables = [_drawn(rows) for rows in (part, _short(part), _broken(part))]
            fitting = (one for one in tables if console.measure(one, options=unbounded).maximum <= console.width)
            console.print(next(fitting, tables[-1]), soft_wrap=False)


def _short(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """*rows* in fewer columns, each still on a line: the percentages that counts tell as well are left out."""
    head = rows[0]
    return [
        [
            PERCENTAGE.sub("", cell) if name in COUNTED else BOUNDS.sub(r"[\1, \2]", cell)
            for name, cell in zip(head, row, strict=True)
        ]
        for row in rows
    ]


def _broken(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """*rows* in two lines each: what follows a figure stands below it, and P95 below P50."""
    found = [[BETWEEN.sub("\n", BOUNDS.sub(r"[\1, \2]", cell)) for cell in row] for row in rows]
    if "P95" in found[0]:
        place = found[0].index("P95")
        found = [[*row[: place - 1], f"{row[place - 1]}\n{row[place]}", *row[place + 1 :]] for row in found]
    return found


def _style(line: str) -> str:
    if line.startswith("FAILED"):
        return "red"
    if line.startswith(("note:", "unstable:", "skipped:")):
        return "yellow"
    return "bold" if line.startswith("OFFLINE") else ""


def _drawn(rows: Sequence[Sequence[str]]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    head, *body = rows
    for name in head:
        table.add_column(name, overflow="fold")
    for row in body:
        # Text objects are shown as they are: a name that looks like markup stays a name
        table.add_row(*map(Text, row))
    return table
