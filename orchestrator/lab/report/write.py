"""The writer of a lab's run directory: `results.jsonl`, `report.md` and `manifest.json`, each written atomically."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.files import replace_file
from orchestrator.lab.report import manifest, markdown, results_jsonl
from orchestrator.lab.report.build import build_report
from orchestrator.lab.report.clean import clean_runs
from orchestrator.lab.report.model import LabReport
from orchestrator.lab.report.stored import read_lab_sweep
from orchestrator.reports.clean import clean_report
from store.errors import UsageError
from store.rows import SweepRow
from store.secrets.scanner import Cleaner

if TYPE_CHECKING:
    from store.sql.reader import Reader


def write_run_directory(reader: Reader, sweep: SweepRow, directory: Path) -> LabReport:
    """Write the files of *sweep* into *directory*, replacing older ones; return the report.

    Raises:
        UsageError: the directory cannot be created or written to. The results are in the store anyway.
    """
    stored = read_lab_sweep(reader, sweep)
    cleaner = Cleaner()
    runs = sorted(clean_runs(stored.runs, cleaner), key=results_jsonl.make_sort_key)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with replace_file(directory / "results.jsonl") as file:
            for run in runs:
                if run.outcome is not None:
                    file.write(cleaner.mask_text(results_jsonl.render_run_line(run), count_marks=False))
                    file.write("\n")
        report = clean_report(build_report(stored.facts, runs), cleaner)
        for name, content in (
            ("report.md", markdown.render_markdown(report)),
            ("manifest.json", manifest.render_manifest(stored, cleaner)),
        ):
            with replace_file(directory / name) as file:
                file.write(content)
    except OSError as error:
        raise UsageError(
            f"{directory}: the run directory cannot be written: {error.strerror or error}",
            f"The results are stored: `evalctl show {sweep.name}` shows them.",
        ) from error
    return report
