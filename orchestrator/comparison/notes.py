"""What a reader must know before reading a comparison, and what no comparison says."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.comparison.arm import Arm
from orchestrator.comparison.model import Comparison
from orchestrator.comparison.sides import WIDE_GAP_US
from orchestrator.text import format_count, list_names


def notes_of(comparison: Comparison) -> Iterator[str]:
    """The notes, most important first. Names are as files and suites spell them."""
    before, after = comparison.baseline, comparison.candidate
    if comparison.replay:
        yield (
            f"{before.mode}: the model's answers come from a recording. A task has changed or it has not; "
            "nothing here says anything about model quality, and there are no intervals."
        )
    if (before.sweep, before.variant) == (after.sweep, after.variant) and before.mode == after.mode:
        yield "both sides are the same sweep: there can be no difference."
    if changed := _changed_files(before, after):
        yield (
            f"the suite's files differ though its version is the same: {list_names(changed)}. "
            "What was measured may not be the same thing."
        )
    for name, missing in (("baseline", comparison.only_baseline), ("candidate", comparison.only_candidate)):
        if missing:
            yield f"only on the {name}, and in no figure here: {list_names(missing)}."
    if comparison.versions:
        told = [f"{name} ({' and '.join(both)})" for name, both in comparison.versions.items()]
        yield f"in different versions on the two sides, and in no figure here: {list_names(told)}."
    for name, arm in (("baseline", before), ("candidate", after)):
        left = sum(counts.unfinished for counts in arm.tasks.values())
        if left:
            yield f"{left} of the {arm.whole.planned} runs planned for the {name} have no result yet."
        skipped = sum(counts.skipped for counts in arm.tasks.values())
        if skipped:
            yield f"{skipped} of the {arm.whole.planned} runs planned for the {name} were skipped, and are in no rate."
    asked = comparison.differences.keys() & {"provider", "endpoint", "model"}
    # a lab's configuration holds whom it asks
    if asked and "configHash" in comparison.differences and not before.is_flow:
        yield "the model (or who serves it) and the measured configuration differ: a difference may be due to either."
    gaps = comparison.gaps
    if gaps is not None and gaps.wide:
        yield (
            f"{gaps.wide} of {gaps.pairs} pairs began more than {WIDE_GAP_US // 60_000_000} minutes apart: "
            "what changed at the provider in between is in the difference."
        )


def limits_of(comparison: Comparison) -> tuple[str, ...]:
    """The footnote, clause by clause."""
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
