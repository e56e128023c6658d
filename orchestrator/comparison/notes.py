"""Notes to read before a comparison, and the limits of every comparison."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.comparison.arm import Arm
from orchestrator.comparison.model import Comparison
from orchestrator.comparison.sides import WIDE_GAP_US
from orchestrator.text import format_count, list_names


def list_notes(comparison: Comparison) -> Iterator[str]:
    """Yield the notes, most important first. Names are spelled as in files and suites."""
    yield from _identity_notes(comparison)
    yield from _coverage_notes(comparison)
    yield from _cause_notes(comparison)


def _identity_notes(comparison: Comparison) -> Iterator[str]:
    """Yield notes on whether both sides measured the same thing."""
    before, after = comparison.baseline, comparison.candidate
    if comparison.replay:
        yield (
            f"{before.mode}: the model's answers come from a recording. Tasks are changed or unchanged; "
            "nothing here says anything about model quality, and there are no intervals."
        )
    if (before.sweep, before.variant) == (after.sweep, after.variant) and before.mode == after.mode:
        yield "both sides are the same sweep: there can be no difference."
    if changed := _changed_files(before, after):
        yield (
            f"the suite's files differ although its version is the same: {list_names(changed)}. "
            "The two sides may not have measured the same thing."
        )


def _coverage_notes(comparison: Comparison) -> Iterator[str]:
    """Yield notes on tasks and runs that the figures leave out."""
    for name, missing in (("baseline", comparison.only_baseline), ("candidate", comparison.only_candidate)):
        if missing:
            yield f"only on the {name}, so left out of every figure: {list_names(missing)}."
    if comparison.versions:
        tasks = [f"{name} ({' and '.join(both)})" for name, both in comparison.versions.items()]
        yield f"in different versions on the two sides, so left out of every figure: {list_names(tasks)}."
    for name, arm in (("baseline", comparison.baseline), ("candidate", comparison.candidate)):
        left = sum(counts.unfinished for counts in arm.tasks.values())
        if left:
            yield f"{left} of the {arm.whole.planned} runs planned for the {name} have no result yet."
        skipped = sum(counts.skipped for counts in arm.tasks.values())
        if skipped:
            planned = f"{arm.whole.planned} runs planned for the {name}"
            yield f"{skipped} of the {planned} were skipped, so they are in no rate."


def _cause_notes(comparison: Comparison) -> Iterator[str]:
    """Yield notes on several possible causes of a difference."""
    model = comparison.differences.keys() & {"provider", "endpoint", "model"}
    # the configuration of a lab includes its models
    if model and "configHash" in comparison.differences and not comparison.baseline.is_flow:
        yield ("the model (or its provider) and the measured configuration differ: either may cause a difference.")
    gaps = comparison.gaps
    if gaps is not None and gaps.wide:
        yield (
            f"{gaps.wide} of {gaps.pairs} pairs began more than {WIDE_GAP_US // 60_000_000} minutes apart: "
            "the difference may include changes at the provider in between."
        )


def limits_of(comparison: Comparison) -> tuple[str, ...]:
    """Return the limits of the verdicts, a sentence each."""
    return (
        "Conservative screen on interval overlap, not a significance test.",
        'Inconclusive is not "no difference".',
        "Repetitions are assumed independent; nothing is paired.",
        f"No correction across the {format_count(len(comparison.tasks), 'task')} compared.",
        f"{format_count(comparison.errored, 'errored run')} excluded.",
    )


def _changed_files(before: Arm, after: Arm) -> list[str]:
    if before.content is None or after.content is None:
        return []
    paths = {*before.content, *after.content}
    return sorted(path for path in paths if before.content.get(path) != after.content.get(path))
