"""Reads a side of a comparison from a suite's `report.json`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orchestrator.comparison.arm import Arm, Counts, VerifierTallies, sum_counts
from orchestrator.reports.report_file import ReportFields
from orchestrator.suite.report.json_report import SCHEMA, SCHEMA_VERSION
from orchestrator.text import one_line
from store.documents.structure import describe_value, suggest_nearest
from store.errors import UsageError
from store.events import Json

MAX_CONDITION_DEPTH = 8
"""Levels of nesting that a condition may have."""


def read_report_arm(whole: ReportFields, path: Path, variant: str | None) -> Arm:
    """Read one side of a comparison from a report; *variant* selects one of several.

    Args:
        whole: the outermost object of the report.
        path: the report as it was named, a `report.json` or its directory.
        variant: the variant to read; None selects the only one.

    Raises:
        UsageError: another tool or another format version wrote it, a field is missing or impossible, or it has
            several variants and none, or an unknown one, was named.
    """
    file = whole.file
    _check_format(file, whole.value)
    tasks = [whole.read_item("tasks", index) for index in range(len(whole.read_list("tasks")))]
    variants = sorted({task.read_string("variant", default="") for task in tasks})
    chosen = _choose_variant(path, variants, variant)
    counts: dict[str, Counts] = {}
    for task in tasks:
        if task.read_string("variant", default="") == chosen:
            name = task.read_string("id")
            if name in counts:
                task.refuse_field("id", f"the task {describe_value(name)} appears twice")
            counts[name] = _read_counts(task, "verifiers")
    conditions = whole.read_object("conditions")
    for name, value in conditions.value.items():
        if _is_deeper_than(value, MAX_CONDITION_DEPTH):
            conditions.refuse_field(name, f"nested more than {MAX_CONDITION_DEPTH} levels deep")
    summary = whole.read_object("summary")
    # The summary of a report with several variants covers all of them: sum the tasks instead.
    return Arm(
        name=f"{path}:{chosen}" if variant is not None else str(path),
        sweep=whole.read_string("runId"),
        variant=chosen,
        suite_id=conditions.read_string("suiteId"),
        suite_version=conditions.read_string("suiteVersion"),
        mode=conditions.read_string("mode"),
        conditions=conditions.value,
        tasks=dict(sorted(counts.items())),
        whole=_read_counts(summary, None) if len(variants) <= 1 else sum_counts(counts.values()),
    )


def _is_deeper_than(value: Json, levels: int) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(levels == 0 or _is_deeper_than(value, levels - 1) for value in inner)


def _check_format(file: Path, value: Mapping[str, Json]) -> None:
    schema, version = value.get("schema"), value.get("schemaVersion")
    if schema == SCHEMA and version == SCHEMA_VERSION:
        return
    family = SCHEMA.partition("/")[0]
    if isinstance(schema, str) and schema.startswith(f"{family}/"):
        raise UsageError(
            f"{file}: schema: format {describe_value(schema)}, version {describe_value(version)}; this evalctl "
            f"reads {SCHEMA!r}, "
            f"version {SCHEMA_VERSION}",
            "Compare the sweep itself, or write its report again with this version.",
        )
    if isinstance(schema, str) and schema.startswith("evalctl."):
        raise UsageError(f"{file}: schema: {describe_value(schema)} is not a report; expected {SCHEMA!r}")
    raise UsageError(
        f"{file}: another program wrote this report: expected the schema {SCHEMA!r}, got {describe_value(schema)}",
        "compare takes reports of `evalctl run`, their directories, and sweeps.",
    )


def _choose_variant(path: Path, variants: list[str], wanted: str | None) -> str:
    if wanted is None:
        if len(variants) > 1:
            names = ", ".join(f"{path}:{one_line(name)}" for name in variants[:10])
            raise UsageError(
                f"{path}: this report has {len(variants)} variants; a side is one of them", f"Name one of them: {names}"
            )
        return variants[0] if variants else ""
    if wanted not in variants:
        known = ", ".join(one_line(name) for name in variants[:10] if name)
        raise UsageError(
            f"{path}: this report has no variant {wanted!r}{suggest_nearest(wanted, variants)}",
            f"It has {known}." if known else "It has none: type its path alone.",
        )
    return wanted


def _read_counts(fields: ReportFields, verifiers: str | None) -> Counts:
    """Read the counts of a task, or of the summary, which has no *verifiers* and other keys for cached input."""
    planned = fields.read_count("planned")
    judged = fields.read_count("judged", maximum=planned)
    passes = fields.read_count("passes", maximum=judged)
    measured = fields.read_object("measured")
    wall = measured.read_object("wallMs", default={})
    per_success = measured.read_object("perSuccess", default={}).read_number("wallMs")
    cached = fields if verifiers else fields.read_object("cachedInput", default={})
    ratio, runs = ("cachedInputRatio", "cachedInputRuns") if verifiers else ("ratio", "runsReporting")
    incidents = fields.read_object("incidents", default={})
    compaction = measured.read_object("compaction", default={})
    return Counts(
        planned=planned,
        passes=passes,
        judged=judged,
        budget_exceeded=fields.read_count("budgetExceeded", maximum=judged),
        errored=fields.read_count("errored", maximum=planned - judged),
        skipped=fields.read_count("skipped", maximum=planned - judged),
        unfinished=fields.read_count("unfinished", maximum=planned - judged),
        input_tokens=measured.read_tokens("inputTokens"),
        output_tokens=measured.read_tokens("outputTokens"),
        wall_total_ms=per_success * passes if per_success is not None and passes else None,
        wall_median_ms=wall.read_number("median"),
        cached_ratio=cached.read_number(ratio, maximum=1e6),
        cached_runs=0 if cached.value.get(runs) is None else cached.read_count(runs, maximum=judged),
        cost_usd=fields.read_object("estimated", default={}).read_number("costUsd"),
        compacted=0 if compaction.value.get("runs") is None else compaction.read_count("runs", maximum=judged),
        incidents={name: incidents.read_count(name) for name in sorted(incidents.value)},
        verifiers=_read_verifiers(fields, verifiers) if verifiers else (),
    )


def _read_verifiers(fields: ReportFields, name: str) -> VerifierTallies:
    tallies = [fields.read_item(name, index) for index in range(len(fields.read_list(name)))]
    return tuple(
        sorted(
            (
                tally.read_string("id"),
                tally.read_count("passed"),
                tally.read_count("failed"),
                tally.read_count("errored"),
            )
            for tally in tallies
        )
    )
