"""Writes the three report files, each atomically."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.files import replace_file
from orchestrator.reports import runs_jsonl
from orchestrator.suite.report import json_report, markdown
from orchestrator.suite.report.build import build_report
from orchestrator.suite.report.model import Report
from store.errors import UsageError
from store.rows import CellRecord, RunRecord, SweepRow
from store.secrets.scanner import Cleaner

if TYPE_CHECKING:
    from store.sql.reader import Reader


def write_report(reader: Reader, sweep: SweepRow, directory: Path, variant: str | None = None) -> Report:
    """Write `report.json`, `report.md` and `runs.jsonl` into *directory*, replacing older ones; return the report.

    With *variant* they cover only that variant of the sweep.

    Raises:
        UsageError: the directory cannot be made or written to; the results stay in the store.
    """
    try:
        cleaner = Cleaner()
        directory.mkdir(parents=True, exist_ok=True)
        with replace_file(directory / "runs.jsonl") as file:

            def write_run_line(run: RunRecord, cell: CellRecord) -> None:
                file.write(cleaner.mask_text(runs_jsonl.run_line(sweep, run, cell)))
                file.write("\n")

            report = build_report(reader, sweep, on_run=write_run_line, cleaner=cleaner, variant=variant)
        for name, content in (
            ("report.json", json_report.render_json(report)),
            ("report.md", markdown.render_markdown(report)),
        ):
            with replace_file(directory / name) as file:
                file.write(content)
    except OSError as error:
        raise UsageError(
            f"{directory}: the report cannot be written: {error.strerror or error}",
            f"The results are stored: `evalctl show {sweep.name}` shows them.",
        ) from error
    return report
