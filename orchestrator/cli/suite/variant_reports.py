"""The reports and comparisons that `variants`, and `resume` of its sweeps, write and print."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.common import COMMON, print_data, print_json
from orchestrator.cli.hints import print_lines
from orchestrator.comparison import json_form, lines
from orchestrator.reports.hints import Hint
from orchestrator.reports.phrases import describe_resume
from orchestrator.suite.report import json_report
from orchestrator.suite.report.build import build_report
from orchestrator.suite.report.model import Report
from orchestrator.suite.report.variants import Variants, write_variants
from orchestrator.text import make_printable, one_line

if TYPE_CHECKING:
    from store.rows import SweepRow
    from store.sql.reader import Reader


def report_variants(
    reader: Reader, sweep: SweepRow, ids: tuple[str, ...], directory: Path, environment: Mapping[str, str]
) -> Report:
    """Write the files into *directory*, print them, and return the report over all variants together."""
    written = write_variants(reader, sweep, ids, directory)
    whole = build_report(reader, sweep)
    if COMMON.json:
        _print_records(written)
        return whole
    for comparison in written.comparisons:
        for line in lines.render_lines(comparison):
            _print_text_line(line)
        _print_text_line("")
    for name, _ in written.reports:
        _print_text_line(f"report of {one_line(name)}: {one_line(str(directory / name), 1000)}/report.md")
    _print_text_line(f"comparison: {one_line(str(directory), 1000)}/comparison.md")
    left = whole.summary.unfinished + whole.summary.again
    if left:
        remark = describe_resume(left, capped="budget" in whole.summary.skipped)
        print_lines([Hint(f"resume {sweep.name}", remark)], environment)
    return whole


def _print_records(written: Variants) -> None:
    """Print one line of JSON for each report and each comparison."""
    for name, report in written.reports:
        line = {"type": "variant_report", "variant": name, "report": json_report.report_to_json(report)}
        print_json(line, compact=True)
    for comparison in written.comparisons:
        line = {"type": "comparison", "comparison": json_form.comparison_to_json(comparison)}
        print_json(line, compact=True)


def _print_text_line(line: str) -> None:
    print_data(make_printable(line, sys.stdout.encoding))
