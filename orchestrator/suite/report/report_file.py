"""Reads a side of a comparison from a suite's `report.json`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from orchestrator.comparison.arm import Arm, Counts, VerifierTallies, summed
from orchestrator.reports.report_file import ReportFields
from orchestrator.suite.report.json_report import SCHEMA, SCHEMA_VERSION
from orchestrator.text import one_line
from store.documents.structure import show, suggest
from store.errors import UsageError
from store.events import Json

DEEPEST = 8
"""Levels of a condition."""


def read_report_arm(whole: ReportFields, path: Path, variant: str | None) -> Arm:
    """Read one side from the report at *path*, a `report.json` or its directory; *variant* selects one of several.

    Raises:
        UsageError: another tool or another format version wrote it, a field is missing or cannot be true, or it has
            several variants and none, or an unknown one, was named.
    """
    file = whole.file
    _check_format(file, whole.value)
    tasks = [whole.item("tasks", place) for place in range(len(whole.items("tasks")))]
    variants = sorted({task.text("variant", default="") for task in tasks})
    chosen = _chosen(path, variants, variant)
    found: dict[str, Counts] = {}
    for task in tasks:
        if task.text("variant", default="") == chosen:
            name = task.text("id")
            if name in found:
                task.refuse("id", f"the task {show(name)} is there twice")
            found[name] = _counts(task, "verifiers")
    conditions = whole.inner("conditions")
    for name, value in conditions.value.items():
        if _deeper(value, DEEPEST):
            conditions.refuse(name, "nested more deeply than any condition is")
    summary = whole.inner("summary")
    # A summary over several variants is nobody's: the tasks are summed up instead.
    return Arm(
        name=f"{path}:{chosen}" if variant is not None else str(path),
        sweep=whole.text("runId"),
        variant=chosen,
        suite_id=conditions.text("suiteId"),
        suite_version=conditions.text("suiteVersion"),
        mode=conditions.text("mode"),
        conditions=conditions.value,
        tasks=dict(sorted(found.items())),
        whole=_counts(summary, None) if len(variants) <= 1 else summed(found.values()),
    )


def _deeper(value: Json, levels: int) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(levels == 0 or _deeper(one, levels - 1) for one in inner)


def _check_format(file: Path, value: Mapping[str, Json]) -> None:
    schema, version = value.get("schema"), value.get("schemaVersion")
    if schema == SCHEMA and version == SCHEMA_VERSION:
        return
    family = SCHEMA.partition("/")[0]
    if isinstance(schema, str) and schema.startswith(f"{family}/"):
        raise UsageError(
            f"{file}: schema: format {show(schema)}, version {show(version)}; this evalctl reads {SCHEMA!r}, "
            f"version {SCHEMA_VERSION}",
            "Compare the sweep itself, or write its report again with this version.",
        )
    if isinstance(schema, str) and schema.startswith("evalctl."):
        raise UsageError(f"{file}: schema: {show(schema)} is no report; expected {SCHEMA!r}")
    raise UsageError(
        f"{file}: another program wrote this report: expected the schema {SCHEMA!r}, got {show(schema)}",
        "compare takes reports of `evalctl run`, their directories, and sweeps.",
    )


def _chosen(path: Path, variants: list[str], wanted: str | None) -> str:
    if wanted is None:
        if len(variants) > 1:
            arms = ", ".join(f"{path}:{one_line(name)}" for name in variants[:10])
            raise UsageError(
                f"{path}: this report has {len(variants)} variants; one side is one of them", f"Say which: {arms}"
            )
        return variants[0] if variants else ""
    if wanted not in variants:
        named = ", ".join(one_line(name) for name in variants[:10] if name)
        raise UsageError(
            f"{path}: this report has no variant {wanted!r}{suggest(wanted, variants)}",
            f"It has {named}." if named else "It has none: give its path alone.",
        )
    return wanted


def _counts(fields: ReportFields, verifiers: str | None) -> Counts:
    """The counts of a task, or of the summary, which has no *verifiers* and tells what was cached in another place."""
    planned = fields.count("planned")
    judged = fields.count("judged", most=planned)
    passes = fields.count("passes", most=judged)
    measured = fields.inner("measured")
    wall = measured.inner("wallMs", default={})
    per_success = measured.inner("perSuccess", default={}).number("wallMs")
    cached = fields if verifiers else fields.inner("cachedInput", default={})
    ratio, runs = ("cachedInputRatio", "cachedInputRuns") if verifiers else ("ratio", "runsReporting")
    incidents = fields.inner("incidents", default={})
    compaction = measured.inner("compaction", default={})
    return Counts(
        planned=planned,
        passes=passes,
        judged=judged,
        budget_exceeded=fields.count("budgetExceeded", most=judged),
        errored=fields.count("errored", most=planned - judged),
        skipped=fields.count("skipped", most=planned - judged),
        unfinished=fields.count("unfinished", most=planned - judged),
        input_tokens=measured.tokens("inputTokens"),
        output_tokens=measured.tokens("outputTokens"),
        wall_total_ms=per_success * passes if per_success is not None and passes else None,
        wall_median_ms=wall.number("median"),
        cached_ratio=cached.number(ratio, most=1e6),
        cached_runs=0 if cached.value.get(runs) is None else cached.count(runs, most=judged),
        cost_usd=fields.inner("estimated", default={}).number("costUsd"),
        compacted=0 if compaction.value.get("runs") is None else compaction.count("runs", most=judged),
        incidents={name: incidents.count(name) for name in sorted(incidents.value)},
        verifiers=_verifiers(fields, verifiers) if verifiers else (),
    )


def _verifiers(fields: ReportFields, name: str) -> VerifierTallies:
    said = [fields.item(name, place) for place in range(len(fields.items(name)))]
    return tuple(
        sorted((one.text("id"), one.count("passed"), one.count("failed"), one.count("errored")) for one in said)
    )
