"""The text format of lab reports that `lab` and `show` print: drawn on a terminal, plain lines elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from orchestrator.lab.report import wording
from orchestrator.lab.report.model import CapabilityReport, LabReport
from orchestrator.reports.hints import Hint, propose_commands
from orchestrator.reports.phrases import NOT_RERUN_CAUSES, PLAYED_MODE_NOTICES
from orchestrator.text import align_rows, format_count, make_printable, one_line

if TYPE_CHECKING:
    from rich.table import Table

MAX_SENTENCE_CHARS = 2000
"""Characters after which a sentence is cut."""
MAX_DETAILS = 20
"""Failing, unstable and skipped cases shown per capability; the rest is counted."""

UNBOUNDED_WIDTH = 10_000
"""Characters: a width at which no table wraps."""
COUNTED_COLUMNS = frozenset({"STABLE", "ABSTAIN", "ERROR"})
"""Columns whose counts say as much as their percentages."""
PERCENTAGE = re.compile(r" [0-9.]+ %$")
BOUNDS = re.compile(r"\[([0-9.]+) %, ([0-9.]+) %\]")
CELL_BREAK = re.compile(r" (?=\[)|(?<=[0-9]) (?=\()|(?<=[0-9]) (?=[0-9.]+ %$)")
"""The places to break a cell on a narrow terminal: between figures, never within one."""

ReportBlock = str | list[Sequence[str]]
"""A line, or a table with its head."""


def print_report(report: LabReport, stream: TextIO, *, directory: Path | None = None, color: bool = True) -> None:
    """Print the report to *stream*; *directory* is the run directory with its files."""
    if color and stream.isatty():
        _draw_report(report, stream, directory)
    else:
        stream.write(make_printable(render_plain(report, directory), stream.encoding) + "\n")
    stream.flush()


def render_plain(report: LabReport, directory: Path | None = None) -> str:
    """Render the report as plain lines, without control characters except line ends."""
    lines: list[str] = []
    for block in _list_blocks(report, directory):
        lines += [block] if isinstance(block, str) else align_rows(block)
    return "\n".join(lines)


def propose_next_commands(report: LabReport) -> Iterator[Hint]:
    """Propose the commands to run after reading *report*."""
    failing = [case.position for capability in report.capabilities for case in capability.failing]
    return propose_commands(
        report.facts.sweep,
        left=report.again,
        capped=any("budget" in row.skipped for capability in report.capabilities for row in capability.rows),
        errors=_count_errors(report),
        first_not_passed=min((position for position in failing if position is not None), default=None),
    )


def _list_blocks(report: LabReport, directory: Path | None) -> Iterator[ReportBlock]:
    facts = report.facts
    yield _indent_line(f"lab {facts.lab} {facts.version}, sweep {facts.sweep}")
    yield _indent_line(wording.format_headline(facts))
    if not facts.sampled:
        yield PLAYED_MODE_NOTICES[facts.mode]
    for capability in report.capabilities:
        yield ""
        yield _indent_line(f"{capability.name}, {format_count(capability.cases, 'fixture')}")
        yield [wording.HEAD, *(tuple(map(one_line, wording.format_row(row, facts))) for row in capability.rows)]
        if (few := wording.format_few_times(capability)) is not None:
            yield _indent_line(few)
        yield from _list_capability_blocks(capability)
    yield ""
    yield _indent_line(wording.format_summary(report))
    yield from (_indent_line(f"compared: {wording.format_comparison(comparison)}") for comparison in report.comparisons)
    if (spent := wording.format_spent(facts)) is not None:
        yield spent
    yield from (_indent_line(f"note: {note}") for note in report.notes)
    if directory is not None:
        yield f"report: {one_line(str(directory), 1000)}/report.md"


def _list_capability_blocks(capability: CapabilityReport) -> Iterator[ReportBlock]:
    confident = wording.list_rows_with_confidence(capability)
    if confident:
        rows = [tuple(map(one_line, line)) for row in confident for line in wording.list_bin_rows(row)]
        yield [wording.BINS_HEAD, *rows]
        yield from (_indent_line(f"calibration of {wording.format_calibration(row)}") for row in confident)
    for failing in capability.failing[:MAX_DETAILS]:
        yield _indent_line(f"FAILED {wording.format_failing(failing)}")
        for broken in failing.broken:
            why, *rest = wording.list_broken_rule_lines(broken, failing.judged)
            yield _indent_line(why, "  ")
            yield from (_indent_line(line, "    ") for line in rest)
        yield from (_indent_line(line, "  ") for line in wording.list_reason_lines(failing))
    if len(capability.failing) > MAX_DETAILS:
        yield f"and {len(capability.failing) - MAX_DETAILS} more that failed: --json and report.md show all of them"
    yield from _cut_lines("unstable", [wording.format_unstable(unstable) for unstable in capability.unstable])
    yield from _cut_lines("skipped", [wording.format_skipped(skipped) for skipped in capability.skipped])


def _cut_lines(label: str, lines: Sequence[str]) -> Iterator[str]:
    yield from (_indent_line(f"{label}: {line}") for line in lines[:MAX_DETAILS])
    if len(lines) > MAX_DETAILS:
        yield f"{label}: and {len(lines) - MAX_DETAILS} more: --json and report.md show all of them"


def _count_errors(report: LabReport) -> int:
    """Count the runs that ended in an infrastructure error and that only `resume --errors` runs again."""
    rows = [row for capability in report.capabilities for row in capability.rows]
    causes = [*(row.infrastructure for row in rows), *(row.interrupted for row in rows)]
    return sum(count for counts in causes for cause, count in counts.items() if cause not in NOT_RERUN_CAUSES)


def _indent_line(text: str, indent: str = "") -> str:
    return f"{indent}{one_line(text, MAX_SENTENCE_CHARS)}"


def _draw_report(report: LabReport, stream: TextIO, directory: Path | None) -> None:
    from rich.console import Console  # noqa: PLC0415 - rich is slow to import; only terminals need it
    from rich.text import Text  # noqa: PLC0415 - (the same)

    # the terminal wraps lines: a command or path with inserted line breaks cannot be copied
    console = Console(file=stream, highlight=False, soft_wrap=True)
    for block in _list_blocks(report, directory):
        if isinstance(block, str):
            console.print(Text(block, style=_line_style(block)))
        else:
            unbounded = console.options.update_width(UNBOUNDED_WIDTH)
            tables = [_draw_table(rows) for rows in (block, _narrow_rows(block), _wrap_rows(block))]
            fitting = (table for table in tables if console.measure(table, options=unbounded).maximum <= console.width)
            console.print(next(fitting, tables[-1]), soft_wrap=False)


def _narrow_rows(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Shorten the cells of *rows*: drop the percentages of `COUNTED_COLUMNS` and the signs of intervals."""
    head = rows[0]
    return [
        [
            PERCENTAGE.sub("", cell) if name in COUNTED_COLUMNS else BOUNDS.sub(r"[\1, \2]", cell)
            for name, cell in zip(head, row, strict=True)
        ]
        for row in rows
    ]


def _wrap_rows(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Break each of *rows* into two lines: the rest of a cell below its first figure, and P95 below P50."""
    wrapped = [[CELL_BREAK.sub("\n", BOUNDS.sub(r"[\1, \2]", cell)) for cell in row] for row in rows]
    if "P95" in wrapped[0]:
        place = wrapped[0].index("P95")
        wrapped = [[*row[: place - 1], f"{row[place - 1]}\n{row[place]}", *row[place + 1 :]] for row in wrapped]
    return wrapped


def _line_style(line: str) -> str:
    if line.startswith("FAILED"):
        return "red"
    if line.startswith(("note:", "unstable:", "skipped:")):
        return "yellow"
    return "bold" if line.startswith("OFFLINE") else ""


def _draw_table(rows: Sequence[Sequence[str]]) -> Table:
    from rich import box  # noqa: PLC0415 - rich is slow to import; only terminals need it
    from rich.table import Table  # noqa: PLC0415 - (the same)
    from rich.text import Text  # noqa: PLC0415 - (the same)

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    head, *body = rows
    for name in head:
        table.add_column(name, overflow="fold")
    for row in body:
        # a Text object is printed literally: a name that looks like markup stays a name
        table.add_row(*map(Text, row))
    return table
