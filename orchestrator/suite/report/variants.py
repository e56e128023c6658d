"""Reports of all variants of a sweep, and the comparison of each with the first, the baseline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from orchestrator.comparison import json_form, markdown
from orchestrator.comparison.build import compare_arms
from orchestrator.comparison.model import Comparison
from orchestrator.comparison.sides import WIDE_GAP_US
from orchestrator.comparison.stored import read_stored_arm
from orchestrator.files import replace_file
from orchestrator.reports.phrases import format_condition
from orchestrator.reports.tables import draw_table
from orchestrator.suite.report.model import Report
from orchestrator.suite.report.write import write_report
from orchestrator.text import escape_markdown
from store.errors import UsageError
from store.events import Json
from store.rows import SweepRow

if TYPE_CHECKING:
    from store.sql.reader import Reader

SCHEMA = "evalctl.variants/1"
SCHEMA_VERSION = 1


@attrs.frozen(kw_only=True)
class Variants:
    """The reports and comparisons of a sweep's variants."""

    sweep: str
    reports: tuple[tuple[str, Report], ...]
    """Pairs of variant and report, the baseline first."""
    comparisons: tuple[Comparison, ...]
    """Comparisons of the other variants with the baseline, in order."""


def write_variants(reader: Reader, sweep: SweepRow, ids: tuple[str, ...], directory: Path) -> Variants:
    """Write the report of each variant into a directory of its own, and `comparison.json` and `.md` beside them.

    Raises:
        UsageError: a file cannot be written; the results stay in the store.
    """
    reports = tuple((name, write_report(reader, sweep, directory / name, name)) for name in ids)
    baseline, *others = [read_stored_arm(reader, sweep, name) for name in ids]
    comparisons = tuple(
        compare_arms(
            baseline,
            other,
            gaps=reader.measure_start_gaps(sweep.id, baseline.variant, other.variant, bound_us=WIDE_GAP_US),
        )
        for other in others
    )
    variants = Variants(sweep=sweep.name, reports=reports, comparisons=comparisons)
    for name, content in (
        ("comparison.json", json.dumps(variants_to_json(variants), indent=2, allow_nan=False) + "\n"),
        ("comparison.md", render_markdown(variants)),
    ):
        try:
            with replace_file(directory / name) as file:
                file.write(content)
        except OSError as error:
            raise UsageError(
                f"{directory}: the comparison cannot be written: {error.strerror or error}",
                f"The results are stored: `evalctl compare {sweep.name}:{ids[0]} {sweep.name}:{ids[1]}` shows them.",
            ) from error
    return variants


def variants_to_json(variants: Variants) -> dict[str, Json]:
    """Return the content of `comparison.json`, whose shape does not depend on the number of variants."""
    return {
        "schemaVersion": SCHEMA_VERSION,
        "schema": SCHEMA,
        "runId": variants.sweep,
        "baseline": variants.reports[0][0],
        "variants": [_variant_to_json(name, report) for name, report in variants.reports],
        "comparisons": [json_form.comparison_to_json(comparison) for comparison in variants.comparisons],
    }


def render_markdown(variants: Variants) -> str:
    """Return the content of `comparison.md`."""
    return (
        "\n".join(_overview_lines(variants))
        + "\n"
        + "\n".join(markdown.render_markdown(comparison) for comparison in variants.comparisons)
    )


def _variant_to_json(name: str, report: Report) -> dict[str, Json]:
    summary = report.summary
    return {
        "id": name,
        "overrides": report.conditions.get("overrides", {}),
        "configHash": report.conditions.get("configHash"),
        "report": f"{name}/report.json",
        "compactedRuns": summary.compaction.runs if summary.compaction is not None else 0,
        "incidents": dict(summary.incidents),
    }


def _overview_lines(variants: Variants) -> Iterator[str]:
    yield f"# Variants of sweep {escape_markdown(variants.sweep)}"
    yield ""
    yield "The first variant is the baseline; every other one is compared with it."
    yield ""
    yield from draw_table(
        ("Variant", "Overrides", "Compacted runs", "Incidents"),
        (_overview_row(name, report) for name, report in variants.reports),
    )


def _overview_row(name: str, report: Report) -> tuple[str, ...]:
    facts = _variant_to_json(name, report)
    return (
        name,
        format_condition(facts["overrides"]) if facts["overrides"] else "none",
        f"{facts['compactedRuns']} of {report.summary.judged}",
        format_condition(facts["incidents"]) if facts["incidents"] else "none",
    )
