"""The printed report: drawn on a terminal, plain lines on any other stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from orchestrator.reports import phrases
from orchestrator.reports.hints import Hint, propose_commands
from orchestrator.suite.report import wording
from orchestrator.suite.report.model import Report
from orchestrator.text import align_rows, make_printable, one_line
from store.money import format_nano_usd

if TYPE_CHECKING:
    from rich.table import Table

HEAD = ("TASK", "PASSED", "RATE (95 % WILSON)", "ANY", "EVERY", "RELIABILITY", "NOT PASSED", "LEFT OUT")
OPTIONAL_COLUMNS = ("ANY", "EVERY")
"""Columns that RELIABILITY implies: omitted if the terminal is too narrow for all columns."""
UNLIMITED_WIDTH = 10_000
"""Characters: a width at which no table wraps."""
MAX_UNBROKEN_WORD = 24
"""Characters: a shorter word is never broken."""
UNBROKEN_COLUMNS = ("PASSED", "RATE (95 % WILSON)", *OPTIONAL_COLUMNS)
"""Columns whose cells never wrap, so that figures can be read at a glance."""
COLORS = {"solved": "green", "flaky": "yellow", "unsolved": "red"}


def print_report(report: Report, stream: TextIO, *, directory: Path | None = None, color: bool = True) -> None:
    """Print the report to *stream*; *directory* holds its files, if they were written."""
    if color and stream.isatty():
        _draw_report(report, stream, directory)
    else:
        stream.write(make_printable(render_plain(report, directory), stream.encoding) + "\n")
    stream.flush()


def render_plain(report: Report, directory: Path | None = None) -> str:
    """Return the report as plain lines, without control characters."""
    return "\n".join(
        [*_header_lines(report), "", *align_rows([HEAD, *_table_rows(report)]), "", *_footer_lines(report, directory)]
    )


def propose_next_commands(report: Report) -> Iterator[Hint]:
    """Propose the commands to run after reading *report*."""
    summary = report.summary
    return propose_commands(
        report.sweep,
        left=summary.unfinished + summary.again,
        capped="budget" in summary.skipped,
        errors=sum(count for cause, count in summary.errored.items() if cause not in phrases.NOT_RERUN_CAUSES),
        first_not_passed=min(
            (task.first_not_passed for task in report.tasks if task.first_not_passed is not None), default=None
        ),
    )


def _header_lines(report: Report) -> Iterator[str]:
    known = {name: one_line(phrases.format_condition(value)) for name, value in report.conditions.items()}
    yield f"{known.get('suiteId')} {known.get('suiteVersion')}, sweep {report.sweep}"
    yield ", ".join(
        f"{label} {known[name]}"
        for label, name in (
            ("variant", "variant"),
            ("mode", "mode"),
            ("provider", "provider"),
            ("model", "model"),
            ("k", "k"),
            ("seed", "seed"),
            ("harness", "harnessVersion"),
        )
        if name in known
    )
    if "configHash" in known:
        yield f"config {known['configHash']}"
    if report.replay:
        yield phrases.PLAYED_MODE_NOTICES["replay"]


def _table_rows(report: Report) -> Iterator[Sequence[str]]:
    for row in wording.result_rows(report, whole=f"all {len(report.tasks)}"):
        yield tuple(map(one_line, row))


def _footer_lines(report: Report, directory: Path | None) -> Iterator[str]:
    summary, measured = report.summary, report.summary.measured
    yield (
        f"measured over {summary.judged} judged runs: wall median {phrases.format_seconds(measured.wall_median_ms)}, "
        f"{phrases.format_number(measured.input_tokens)} tokens in, "
        f"{phrases.format_number(measured.output_tokens)} out, "
        f"{phrases.format_number(measured.tokens_per_success)} tokens per success, cached input "
        f"{wording.format_cached(summary)}"
    )
    if summary.cost_usd is not None:
        rates = report.conditions.get("inputRate"), report.conditions.get("outputRate")
        yield (
            f"estimated: {phrases.format_usd(summary.cost_usd)} at {rates[0]} and {rates[1]} USD per million "
            f"tokens in and out"
        )
    cost = f", {format_nano_usd(report.spent.nusd)} USD" if report.spent.nusd else ""
    yield f"spent on all requests: {phrases.format_requests(report.spent.calls, report.spent.tokens)}{cost}"
    if report.bounds is not None and summary.left_out:
        low, high = report.bounds
        yield (
            f"counting the runs left out, the rate lies between {phrases.format_percent(low)} and "
            f"{phrases.format_percent(high)}"
        )
    yield from (f"note: {one_line(note, 2000)}" for note in report.notes)
    for task in report.tasks:
        for cause, message in task.examples.items():
            yield (
                f"error({one_line(cause)}) in {one_line(wording.task_name(task))}: "
                f"{phrases.format_error(cause, message)}"
            )
    if directory is not None:
        yield f"report: {one_line(str(directory), 1000)}/report.md"


def _draw_report(report: Report, stream: TextIO, directory: Path | None) -> None:
    from rich.console import Console  # noqa: PLC0415 - slow to import, and needed for drawing only
    from rich.text import Text  # noqa: PLC0415 - (the same)

    # the terminal wraps lines: a command or path that contains a line end cannot be copied
    console = Console(file=stream, highlight=False, soft_wrap=True)
    rows = list(_table_rows(report))
    columns = [index for index in range(len(HEAD)) if any(row[index] for row in rows)]
    table = _draw_table(rows, columns)
    if console.measure(table, options=console.options.update_width(UNLIMITED_WIDTH)).maximum > console.width:
        table = _draw_table(rows, [index for index in columns if HEAD[index] not in OPTIONAL_COLUMNS])
    for line in _header_lines(report):
        console.print(Text(line, style="bold" if line.startswith("REPLAY") else ""))
    console.print(table, soft_wrap=False)
    for line in _footer_lines(report, directory):
        console.print(Text(line, style="yellow" if line.startswith("note:") else ""))


def _draw_table(rows: Sequence[Sequence[str]], columns: Sequence[int]) -> Table:
    from rich import box  # noqa: PLC0415 - slow to import, and needed for drawing only
    from rich.table import Table  # noqa: PLC0415 - (the same)
    from rich.text import Text  # noqa: PLC0415 - (the same)

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for index in columns:
        words = [word for row in (HEAD, *rows) for word in row[index].split()]
        longest = min(max(map(len, words)), MAX_UNBROKEN_WORD)
        table.add_column(HEAD[index], overflow="fold", no_wrap=HEAD[index] in UNBROKEN_COLUMNS, min_width=longest)
    for row in rows:
        # Text objects are printed literally: a name that looks like markup stays a name
        cells = (row[index] for index in columns)
        table.add_row(*(Text(cell, style=COLORS.get(cell.partition(",")[0], "")) for cell in cells))
    return table
