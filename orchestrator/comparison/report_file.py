"""A side from a `report.json`, which may have been edited, cut off, or written by something else."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import attrs

from orchestrator.comparison.arm import Arm, Counts, VerifierTallies, summed
from orchestrator.suite.report.json_report import SCHEMA, SCHEMA_VERSION
from orchestrator.text import one_line
from store.documents.structure import show, suggest
from store.errors import UsageError
from store.events import Json

LARGEST = 256 * 1024 * 1024
"""Bytes of a report that are read."""
NAME = "report.json"
MOST = 10**15
"""No count and no figure of a report is larger."""
DEEPEST = 8
"""Levels of a condition."""


def report_arm(path: Path, variant: str | None) -> Arm:
    """The arm of the report at *path*, a `report.json` or its directory; *variant* chooses among several.

    Raises:
        UsageError: there is no such report, another tool or another format version wrote it, a field is missing or
            cannot be true, or it has several variants and none, or an unknown one, was named.
    """
    file = path / NAME if path.is_dir() else path
    whole = _Fields(file, (), _parsed(file))
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


def _parsed(file: Path) -> Mapping[str, Json]:
    try:
        if not file.is_file():
            hint = "Name a directory with a report.json, that file, or a sweep."
            if file.with_name("results.jsonl").is_file():
                hint = "This is the run directory of a lab: compare its targets by its sweep, SWEEP:TARGET."
            if file.with_name("comparison.json").is_file():
                hint = "This directory holds a comparison; each variant's report is in a directory of its own."
            raise UsageError(f"{file}: there is no report here", hint)
        size = file.stat().st_size
        if size > LARGEST:
            raise UsageError(f"{file}: {size:,} bytes are no report")
        value = json.loads(file.read_bytes(), parse_constant=_no_number)
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{file}:{error.lineno}: not JSON: {error.msg}", "It may have been cut off or edited."
        ) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: not a report: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{file}: not a report: expected an object, got {show(value)}")
    return value


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


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


@attrs.frozen
class _Fields:
    """An object of the report, and where it stands."""

    file: Path
    place: tuple[str, ...]
    value: Mapping[str, Json]

    def refuse(self, name: str, problem: str) -> NoReturn:
        where = ".".join((*self.place, name))
        raise UsageError(f"{self.file}: {where}: {problem}", "The report may have been edited or damaged.")

    def inner(self, name: str, *, default: Mapping[str, Json] | None = None) -> _Fields:
        value = self.value.get(name, default)
        if not isinstance(value, Mapping):
            self.refuse(name, f"expected an object, got {show(value)}" if name in self.value else "is missing")
        return _Fields(self.file, (*self.place, name), value)

    def items(self, name: str) -> list[Json]:
        value = self.value.get(name)
        if not isinstance(value, list):
            self.refuse(name, f"expected an array, got {show(value)}" if name in self.value else "is missing")
        return value

    def item(self, name: str, place: int) -> _Fields:
        value = self.items(name)[place]
        if not isinstance(value, Mapping):
            self.refuse(f"{name}[{place}]", f"expected an object, got {show(value)}")
        return _Fields(self.file, (*self.place, f"{name}[{place}]"), value)

    def text(self, name: str, *, default: str | None = None) -> str:
        value = self.value.get(name, default)
        if not isinstance(value, str):
            self.refuse(name, f"expected some text, got {show(value)}" if name in self.value else "is missing")
        return value

    def count(self, name: str, *, most: int | None = None) -> int:
        value = self.value.get(name)
        if type(value) is not int or not 0 <= value <= MOST:
            self.refuse(name, f"expected a count, got {show(value)}" if name in self.value else "is missing")
        if most is not None and value > most:
            self.refuse(name, f"{value} are more than the {most} there can be")
        return value

    def number(self, name: str, *, most: float = MOST) -> float | None:
        value = self.value.get(name)
        if value is None:
            return None
        if type(value) not in (int, float) or not 0 <= value <= most:
            self.refuse(name, f"expected a number that is possible here, got {show(value)}")
        return float(value)

    def tokens(self, name: str) -> int | None:
        return None if self.value.get(name) is None else self.count(name)


def _counts(fields: _Fields, verifiers: str | None) -> Counts:
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


def _verifiers(fields: _Fields, name: str) -> VerifierTallies:
    said = [fields.item(name, place) for place in range(len(fields.items(name)))]
    return tuple(
        sorted((one.text("id"), one.count("passed"), one.count("failed"), one.count("errored")) for one in said)
    )
