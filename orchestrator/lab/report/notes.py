"""The notes before a lab's figures, on mode, stability, power and runs left out, and the limits after them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from orchestrator.lab.report.model import LabReport, TargetRow
from orchestrator.text import format_count, list_names
from store.stats.calibration import MIN_ECE_CONFIDENCES
from store.stats.rates import MIN_JUDGED

REPEAT_NOTE = "repeat is 1: this says nothing about stability."
LIMITS = (
    "pass is over judged runs, those that were not skipped: an infrastructure failure counts as not passed.",
    "Intervals are Wilson's, 95 %; repetitions of a fixture are taken for independent runs in them.",
    "p50 and p95 are over runs that called a backend: the time worked, without waits at the provider's limits.",
    "A cost is that of reported tokens at lab.yaml's prices. Caps also count unreported tokens, at their upper bound.",
    "A confidence is the deciding node's own; a run is right if every assertion held.",
    "A Brier score means little beside a high accuracy: its skill compares it with always stating the overall rate.",
)
"""The limits that every report of a live lab states."""
LIMITS_OFFLINE = (
    "pass is over judged runs, those that were not skipped.",
    "A confidence is the deciding node's own; a run is right if every assertion held.",
)
"""The limits that every report of an offline lab states."""


def list_limits(report: LabReport) -> tuple[str, ...]:
    """Return the limits of the figures, one sentence each."""
    return LIMITS if report.facts.sampled else LIMITS_OFFLINE


def list_notes(report: LabReport) -> Iterator[str]:
    """Yield the notes, most important first, with names as the lab spells them."""
    facts = report.facts
    rows = [(capability.name, row) for capability in report.capabilities for row in capability.rows]
    if not facts.sampled:
        yield (
            "offline: the answers are recordings. This tests flows, rules and schemas, not who answers: nothing is "
            "sampled, timed or paid for, and there are no intervals."
        )
    single = sum(row.stability.single for _, row in rows)
    if single and facts.repeat == 1:
        yield REPEAT_NOTE
    elif single:
        yield (
            f"stability: {format_count(single, 'fixture and target', 'fixtures and targets')} ran once, which says "
            f"nothing about stability."
        )
    yield from _describe_left_out(rows)
    failed = Counter[str]()
    for _, row in rows:
        failed.update(row.infrastructure)
    if failed:
        yield (
            f"{format_count(failed.total(), 'run')} ended in an infrastructure failure "
            f"({_format_reasons(failed)}): not passed, "
            "and in no comparison of targets."
        )
    low_power = [f"{row.target} on {name}" for name, row in rows if row.low_power]
    if low_power:
        fewer = f"fewer than {MIN_JUDGED} judged runs for {list_names(low_power)}"
        yield f"low power: {fewer}; repeat more often before deciding."
    unknown = sorted({row.target for _, row in rows if row.cost.unknown})
    if unknown:
        yield (
            f"cost unknown: {list_names(unknown)} made calls without a price, which no cap on cost controls, or "
            "without reported tokens."
        )
    yield from _list_calibration_notes(rows)
    asked = {target.model for target in facts.targets if target.model}
    if set(facts.answering) - asked:
        yield f"models asked for: {list_names(sorted(asked)) or 'none'}; that answered: {list_names(facts.answering)}."
    if facts.sampled and len(report.comparisons) > 1:
        yield f"{len(report.comparisons)} comparisons of targets are made; no interval is corrected for their number."


def _describe_left_out(rows: Iterable[tuple[str, TargetRow]]) -> Iterator[str]:
    all_rows = [row for _, row in rows]
    planned = sum(row.planned for row in all_rows)
    reasons = Counter[str]()
    for row in all_rows:
        reasons.update({f"skipped({reason})": times for reason, times in row.skipped.items()})
        reasons.update({f"not judged({reason})": times for reason, times in row.interrupted.items()})
        if row.unfinished:
            reasons["without a result"] += row.unfinished
    if reasons:
        verb = "is" if reasons.total() == 1 else "are"
        yield (
            f"{reasons.total()} of {format_count(planned, 'planned run')} {verb} in no rate: "
            f"{_format_reasons(reasons)}."
        )


def _list_calibration_notes(rows: Iterable[tuple[str, TargetRow]]) -> Iterator[str]:
    confident = [(name, row) for name, row in rows if row.calibration.n]
    silent = [
        f"{row.calibration.silent} of {row.target} on {name}" for name, row in confident if row.calibration.silent
    ]
    if silent:
        yield f"judged runs without a confidence, left out of calibration: {list_names(silent)}."
    few = [f"{row.target} on {name} ({row.calibration.n})" for name, row in confident if row.calibration.ece is None]
    if few:
        yield f"fewer than {MIN_ECE_CONFIDENCES} confidences, so no calibration error is shown: {list_names(few)}."


def _format_reasons(counts: Counter[str]) -> str:
    return ", ".join(f"{times} {reason}" for reason, times in sorted(counts.items()))
