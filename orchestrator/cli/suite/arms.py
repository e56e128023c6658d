"""What `variants`, and the `resume` of its sweeps, leave behind: reports, comparisons, and what is printed of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli.common import COMMON, out
from orchestrator.cli.hints import print_lines
from orchestrator.comparison import json_form, lines
from orchestrator.reports.hints import Hint
from orchestrator.reports.phrases import describe_resume
from orchestrator.suite.report import json_report
from orchestrator.suite.report.build import build_report
from orchestrator.suite.report.model import Report
from orchestrator.suite.report.variants import Variants, write_variants
from orchestrator.text import one_line, printable

if TYPE_CHECKING:
    from store.rows import SweepRow
    from store.sql.reader import Reader


def tell(
    reader: Reader, sweep: SweepRow, ids: tuple[str, ...], directory: Path, environment: Mapping[str, str]
) -> Report:
    """Write the files into *directory*, print what they say, and return the report on all variants together."""
    found = write_variants(reader, sweep, ids, directory)
    whole = build_report(reader, sweep)
    if COMMON.json:
        _records(found)
        return whole
    for comparison in found.comparisons:
        for line in lines.lines(comparison):
            _print(line)
        _print("")
    for name, _ in found.reports:
        _print(f"report of {one_line(name)}: {one_line(str(directory / name), 1000)}/report.md")
    _print(f"comparison: {one_line(str(directory), 1000)}/comparison.md")
    left = whole.summary.unfinished + whole.summary.again
    if left:
        remark = describe_resume(left, capped="budget" in whole.summary.skipped)
        print_lines([Hint(f"resume {sweep.name}", remark)], environment)
    return whole


def _records(found: Variants) -> None:
    """One line for each report and each comparison."""
    for name, report in found.reports:
        line = {"type": "variant_report", "variant": name, "report": json_report.document(report)}
        out(json.dumps(line, separators=(",", ":"), allow_nan=False))
    for comparison in found.comparisons:
        line = {"type": "comparison", "comparison": json_form.document(comparison)}
        out(json.dumps(line, separators=(",", ":"), allow_nan=False))


def _print(line: str) -> None:
    out(printable(line, sys.stdout.encoding))
