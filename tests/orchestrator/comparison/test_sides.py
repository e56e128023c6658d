"""A side is the same whether it is read from a sweep's rows or from the report that was written of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest

from orchestrator.comparison.build import compare_arms
from orchestrator.comparison.json_form import comparison_to_json
from orchestrator.comparison.sides import Sides
from orchestrator.comparison.sides import read_sides as read_sides_with
from orchestrator.kinds import read_report_side
from orchestrator.suite.report.build import build_report
from orchestrator.suite.report.write import write_report
from store.errors import StoreRefused, UsageError
from store.rows import Verdict
from store.sql.reader import Reader
from tests.orchestrator.reports import stored
from tests.store.sql.generate import Shape, generate

read_sides = partial(read_sides_with, read_report=read_report_side)

FIRST, SECOND = "20200101T000000Z-00000001", "20200102T000000Z-00000002"
RATES = {"input_rate": "1", "output_rate": "3"}
COMPACTED = {"detail": {"incidents": {"compaction": 2}, "compaction": {"calls": 2, "input": 10, "output": 2}}}
PASSED = {"verdicts": (Verdict(verifier="check", kind="command", verdict="pass"),)}
FAILED = {"outcome": "fail", "verdicts": (Verdict(verifier="check", kind="command", verdict="fail"),)}
ERROR = {"outcome": "error", "reason": "provider", "input_tokens": None, "output_tokens": None}
SKIPPED = {"outcome": "skipped", "reason": "budget", "again": True, "input_tokens": None, "output_tokens": None}
OVER = {"outcome": "budget_exceeded", "reason": "maxTurns"}
CACHED = {**PASSED, "cached_tokens": 40}
PARTIAL = {**PASSED, "cached_tokens": 40, "detail": {"cachedPartial": True}}
SILENT = {**PASSED, "input_tokens": None, "output_tokens": None}

BEFORE = {
    "cached": [CACHED, CACHED, PARTIAL, PASSED, FAILED],
    "mixed": [PASSED, OVER, ERROR, SKIPPED, None],
    "silent": [SILENT, PASSED, PASSED, PASSED, FAILED],
    "worse": [PASSED] * 5,
}
AFTER = {
    "cached": [CACHED] * 5,
    "mixed": [PASSED, OVER, FAILED, FAILED, PASSED],
    "silent": [PASSED] * 5,
    "worse": [{**FAILED, **COMPACTED}] * 5,
}


def add(
    path: Path,
    name: str,
    outcomes: dict[str, Any],
    *,
    k: int = 5,
    mode: Literal["live", "replay", "offline"] = "live",
    version: str = "1.2.0",
    settings: dict[str, str] | None = None,
) -> None:
    planned = stored.sweep(list(outcomes), k, mode=mode, settings=settings)
    cells = tuple(
        attrs.evolve(cell, suite_version=version, digest=(cell.digest[:20] + version.encode()).ljust(32))
        for cell in planned.cells
    )
    stored.write(path, attrs.evolve(planned, name=name, cells=cells), outcomes)


def report(path: Path, name: str, directory: Path) -> str:
    with Reader(path) as reader:
        write_report(reader, reader.find_sweep(name), directory)
    return str(directory)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"
    add(path, FIRST, BEFORE, settings=RATES)
    add(path, SECOND, AFTER, settings=RATES)
    return path


def told(sides: Sides, **more: Any) -> dict[str, Any]:
    found = comparison_to_json(compare_arms(sides.baseline, sides.candidate, gaps=sides.gaps, **more))
    for side in ("baseline", "candidate"):
        del found[side]["name"]
    return found


def near(one: Any, other: Any) -> bool:
    """Equal, but for the rounding of a total that a report keeps as total per success."""
    if isinstance(one, float) and isinstance(other, int | float):
        return one == pytest.approx(other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(near(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(near, one, other))
    return one == other


def test_rows_and_reports_tell_the_same(store: Path, tmp_path: Path) -> None:
    files = report(store, FIRST, tmp_path / "a"), report(store, SECOND, tmp_path / "b") + "/report.json"
    rows = told(read_sides(FIRST, SECOND, store), detail=True)
    assert [task["verdict"] for task in rows["tasks"]] == [
        "inconclusive",
        "not comparable",
        "inconclusive",
        "regressed",
    ]
    assert near(told(read_sides(*files, store), detail=True), rows)
    assert near(told(read_sides(files[0], SECOND[:8] + "T", tmp_path / "runs.db"), detail=True), rows)


def test_a_report_needs_no_store(store: Path, tmp_path: Path) -> None:
    one = report(store, FIRST, tmp_path / "a")
    assert read_sides(one, one, tmp_path / "none.db").baseline.sweep == FIRST
    with pytest.raises(StoreRefused, match="there is no store here"):
        read_sides(one, "last", tmp_path / "none.db")


def test_a_side_counts_what_a_report_counts(store: Path) -> None:
    with Reader(store) as reader:
        reports = [build_report(reader, reader.find_sweep(name)) for name in (FIRST, SECOND)]
    sides = read_sides(FIRST, SECOND, store)
    for arm, whole in zip((sides.baseline, sides.candidate), reports, strict=True):
        assert dict(arm.conditions) == dict(whole.conditions)
        for counts, figures in [
            (arm.whole, whole.summary),
            *((arm.tasks[task.id], task.figures) for task in whole.tasks),
        ]:
            assert (counts.planned, counts.judged, counts.passes) == (figures.planned, figures.judged, figures.passes)
            assert (counts.unfinished, counts.skipped) == (figures.unfinished, sum(figures.skipped.values()))
            assert counts.errored == sum(figures.errored.values())
            assert counts.budget_exceeded == sum(figures.budget_exceeded.values())
            assert counts.wilson == figures.wilson
            measured = figures.measured
            assert (counts.input_tokens, counts.output_tokens) == (measured.input_tokens, measured.output_tokens)
            assert counts.wall_median_ms == measured.wall_median_ms
            assert counts.cost_usd == figures.cost_usd
            assert counts.cached_ratio == (figures.cached.ratio if figures.cached else None)
            assert counts.compacted == (figures.compaction.runs if figures.compaction else 0)
            assert dict(counts.incidents) == dict(figures.incidents)
    assert sides.baseline.tasks["cached"].cached_runs == 2
    assert sides.baseline.tasks["silent"].input_tokens is None


def test_a_result_that_was_superseded_counts_no_more(tmp_path: Path) -> None:
    generate(tmp_path / "runs.db", Shape(cases=12, variants=1, repetitions=20, sweeps=3))
    with Reader(tmp_path / "runs.db") as reader:
        names = [sweep.name for sweep in reader.list_sweeps()][::-1]
        figures = {task.id: task.figures for task in build_report(reader, reader.find_sweep(names[0])).tasks}
    found = read_sides(names[0], names[1], tmp_path / "runs.db").baseline
    assert {name: (one.passes, one.judged, one.errored) for name, one in found.tasks.items()} == {
        name: (one.passes, one.judged, sum(one.errored.values())) for name, one in figures.items()
    }


@pytest.fixture
def variants(tmp_path: Path) -> Path:
    generate(tmp_path / "variants.db", Shape())
    return tmp_path / "variants.db"


def test_an_arm_of_a_sweep_is_named_by_its_variant(variants: Path) -> None:
    sides = read_sides("00000:v0", "00000:v1", variants)
    assert [arm.variant for arm in (sides.baseline, sides.candidate)] == ["v0", "v1"]
    assert sides.baseline.name.endswith(":v0")
    assert sides.baseline.whole.planned == 18
    assert sides.gaps.pairs == 18
    assert sides.gaps.longest_us >= 1_000_000
    assert read_sides("00000:v0", "00001:v0", variants).gaps is None
    assert comparison_to_json(compare_arms(sides.baseline, sides.candidate, gaps=sides.gaps))["startGaps"]["wide"] == 0


def test_a_sweep_of_several_variants_is_no_side_until_one_is_named(variants: Path) -> None:
    with pytest.raises(UsageError, match=r"has 2 variants.*\n.*:v0, .*:v1"):
        read_sides("00000", "00001:v0", variants)
    with pytest.raises(UsageError, match="has no variant 'v9'"):
        read_sides("00000:v9", "00001:v0", variants)


def test_the_compaction_settings_of_a_variant_are_the_sweeps_with_what_it_sets_otherwise(tmp_path: Path) -> None:
    settings = {
        "agent": {"compaction_auto": True, "compaction_threshold": 0.85, "max_context_chars": 800_000},
        "variants": [{"id": "a", "overrides": {}}, {"id": "b", "overrides": {"compaction.threshold": 0.6, "x": 1}}],
    }
    planned = stored.sweep(["t"], 1, settings=settings)
    cells = tuple(attrs.evolve(planned.cells[0], variant=name, digest=name.encode() * 32) for name in "ab")
    runs = tuple(attrs.evolve(planned.runs[0], position=place + 1, cell=place) for place in range(2))
    stored.write(tmp_path / "runs.db", attrs.evolve(planned, cells=cells, runs=runs), {"t": [PASSED]})
    sides = read_sides("last:a", "last:b", tmp_path / "runs.db")
    assert sides.baseline.conditions["compaction"] == {"auto": True, "threshold": 0.85, "maxContextChars": 800_000}
    found = compare_arms(sides.baseline, sides.candidate).tasks[0].deltas["tokensPerRun"]
    assert found.why == "not comparable: the compaction settings differ: threshold 0.85, 0.6"


def test_a_sweep_without_variants_has_none_by_name(store: Path) -> None:
    with pytest.raises(UsageError, match="has no variant 'x'"):
        read_sides(f"{FIRST}:x", SECOND, store)
    with pytest.raises(UsageError, match="there is no sweep 'nothing'"):
        read_sides("nothing", SECOND, store)


def test_an_arm_of_a_report_is_named_by_its_variant(variants: Path, tmp_path: Path) -> None:
    with Reader(variants) as reader:
        write_report(reader, reader.find_sweep("00000"), tmp_path / "both")
    found = read_sides(f"{tmp_path}/both:v1", "00000:v1", variants)
    assert found.baseline.tasks.keys() == found.candidate.tasks.keys()
    assert found.baseline.whole.passes == found.candidate.whole.passes
    with pytest.raises(UsageError, match="2 variants"):
        read_sides(f"{tmp_path}/both", "00000:v1", variants)
    with pytest.raises(UsageError, match=r"no variant 'v2'\nIt has v0, v1\."):
        read_sides(f"{tmp_path}/both/report.json:v2", "00000:v1", variants)


def test_replays_are_compared_by_what_their_verifiers_said(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    add(path, FIRST, {"a": [PASSED], "b": [FAILED]}, k=1, mode="replay")
    add(path, SECOND, {"a": [PASSED], "b": [PASSED]}, k=1, mode="replay")
    rows = told(read_sides(FIRST, SECOND, path))
    assert [task["verdict"] for task in rows["tasks"]] == ["unchanged", "changed"]
    files = report(path, FIRST, tmp_path / "a"), report(path, SECOND, tmp_path / "b")
    assert [task["verdict"] for task in told(read_sides(*files, path))["tasks"]] == ["unchanged", "changed"]


@pytest.fixture
def written(store: Path, tmp_path: Path) -> Path:
    directory = tmp_path / "report"
    report(store, FIRST, directory)
    return directory / "report.json"


def nested(levels: int) -> list[list[list[list[Any]]]]:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


def edited(file: Path, change: Callable[..., Any]) -> None:
    value = json.loads(file.read_text())
    change(value)
    file.write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda report: report.pop("schema"), "another program wrote this report"),
        (lambda report: report.update(schema="other.report/1"), "another program wrote this report"),
        (lambda report: report.update(schema="evalctl.report/2"), "this evalctl reads 'evalctl.report/1'"),
        (lambda report: report.update(schemaVersion=2), "version 2; this evalctl reads"),
        (lambda report: report.update(schema="evalctl.run/1"), "is not a report"),
        (lambda report: report.pop("tasks"), "tasks: is missing"),
        (lambda report: report.update(tasks=[1]), r"tasks\[0\]: expected an object, got 1"),
        (lambda report: report["conditions"].pop("suiteId"), "conditions.suiteId: is missing"),
        (
            lambda report: report["tasks"][1].update(judged=99),
            r"tasks\[1\].judged: 99 is more than the possible maximum, 5",
        ),
        (lambda report: report["tasks"][1].update(passes="3"), r"tasks\[1\].passes: expected a count, got '3'"),
        (lambda report: report["tasks"][1].update(passes=True), r"tasks\[1\].passes: expected a count, got true"),
        (lambda report: report["tasks"][0]["measured"].update(inputTokens=-1), r"measured.inputTokens: expected a"),
        (lambda report: report["tasks"][0].update(cachedInputRatio=-0.1), "cachedInputRatio: expected a number"),
        (lambda report: report["tasks"][0]["measured"].update(inputTokens=10**400), "measured.inputTokens: expected a"),
        (
            lambda report: report["tasks"][0]["measured"]["wallMs"].update(median=1e300),
            "wallMs.median: expected a number",
        ),
        (lambda report: report["conditions"].update(git=nested(200)), "conditions.git: nested more than 8 levels deep"),
        (lambda report: report["tasks"][0].update(id="mixed"), r"tasks\[1\].id: the task 'mixed' appears twice"),
        (lambda report: report["tasks"][0].update(verifiers=[{}]), r"verifiers\[0\].id: is missing"),
    ],
)
def test_a_report_that_is_none_is_refused_by_field(written: Path, change: Callable[..., Any], message: str) -> None:
    edited(written, change)
    with pytest.raises(UsageError, match=message) as refused:
        read_sides(str(written), str(written), written)
    assert str(written) in str(refused.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "report.json:1: not JSON"),
        ('{"schema": "evalctl.report/1",\n"tasks": [', "report.json:2: not JSON"),
        ("[]", "expected an object, got an array"),
        ('{"schema": NaN}', "NaN is not a number"),
        ("[" * 100_000, "not a report"),
        (b'{"\xff": 1}', "not a report"),
    ],
)
def test_a_file_that_is_no_report_is_refused(tmp_path: Path, content: bytes | str, message: str) -> None:
    file = tmp_path / "report.json"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError, match=message):
        read_sides(str(tmp_path), str(tmp_path), file)


def test_a_path_without_a_report_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no report here"):
        read_sides(f"{tmp_path}/none", f"{tmp_path}/none", tmp_path)
    (tmp_path / "comparison.json").write_text("{}")
    with pytest.raises(UsageError, match="each variant's report is in a directory of its own"):
        read_sides(f"{tmp_path}/", f"{tmp_path}/", tmp_path)


def test_the_start_of_a_sweeps_name_is_no_path(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / FIRST[:9]).mkdir()
    assert read_sides(FIRST[:8], SECOND, store).baseline.sweep == FIRST
