"""The builder of lab reports, from runs to a `LabReport`. Pure: the order of the runs does not matter."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import attrs

from orchestrator.lab.report.model import (
    BrokenAssertion,
    Calibration,
    CapabilityReport,
    Example,
    FailingCase,
    LabFacts,
    LabReport,
    Latency,
    SkippedRuns,
    Stability,
    TargetCost,
    TargetRow,
    UnstableCase,
)
from orchestrator.lab.report.notes import list_notes
from orchestrator.lab.report.pairing import compare_targets
from orchestrator.lab.report.run import LabRun
from store.events import Json
from store.rows import Verdict
from store.stats import calibration, paired, rates
from store.stats.rates import Interval

MAX_EXAMPLES = 3
"""Examples shown for a broken assertion; the rest is counted."""

Order = Callable[[str], tuple[int, str]]


def build_report(facts: LabFacts, runs: Iterable[LabRun]) -> LabReport:
    """Build the report over *runs*, all planned runs of a lab's sweep."""
    ordered = sorted(runs, key=lambda run: (run.capability, run.case_name, run.target, run.repetition))
    declared = {target.id: place for place, target in enumerate(facts.targets)}
    order: Order = lambda target: (declared.get(target, -1), target)  # noqa: E731 - undeclared targets come first
    report = LabReport(
        facts=facts,
        capabilities=tuple(
            _report_capability(facts, name, list(group), order)
            for name, group in itertools.groupby(ordered, lambda run: run.capability)
        ),
        comparisons=compare_targets(facts, ordered),
        planned=len(ordered),
        judged=sum(run.judged for run in ordered),
        passes=sum(run.judged and run.outcome == "pass" for run in ordered),
        skipped=sum(run.outcome == "skipped" for run in ordered),
        again=sum(run.again or run.outcome is None for run in ordered),
        notes=(),
    )
    return attrs.evolve(report, notes=tuple(list_notes(report)))


def group_by_case(runs: Iterable[LabRun]) -> dict[str, list[LabRun]]:
    """Group runs by case id."""
    groups: dict[str, list[LabRun]] = {}
    for run in runs:
        groups.setdefault(run.case, []).append(run)
    return groups


def _report_capability(facts: LabFacts, name: str, runs: Sequence[LabRun], order: Order) -> CapabilityReport:
    by_target: dict[str, list[LabRun]] = {}
    for run in runs:
        by_target.setdefault(run.target, []).append(run)
    sorted_targets = sorted(by_target.items(), key=lambda item: order(item[0]))
    # sorted by case first, so that the targets that fail on one case stand together
    cells = sorted(
        (
            (case, target, repetitions)
            for target, own in sorted_targets
            for case, repetitions in group_by_case(own).items()
        ),
        key=lambda cell: (cell[0], order(cell[1])),
    )
    return CapabilityReport(
        name=name,
        cases=len({run.case_name for run in runs}),
        rows=tuple(_report_target(facts, target, own) for target, own in sorted_targets),
        failing=tuple(failing for cell in cells for failing in _find_failing(*cell)),
        unstable=tuple(unstable for cell in cells for unstable in _find_unstable(*cell)),
        skipped=tuple(skipped for cell in cells for skipped in _find_skipped(*cell)),
    )


def _report_target(facts: LabFacts, target: str, runs: Sequence[LabRun]) -> TargetRow:
    judged = [run for run in runs if run.judged]
    passes = sum(run.outcome == "pass" for run in judged)
    others = [run for run in runs if not run.judged and run.outcome is not None]
    return TargetRow(
        target=target,
        planned=len(runs),
        judged=len(judged),
        passes=passes,
        success_rate=rates.success_rate(passes, len(judged)),
        wilson=rates.wilson_interval(passes, len(judged)) if facts.sampled else None,
        low_power=facts.sampled and rates.has_low_power(len(judged)),
        stability=_measure_stability(judged),
        abstained=sum(run.decision_status == "abstain" for run in judged),
        errors=sum(_has_error(run) for run in judged),
        infrastructure=_count_reasons(run.reason for run in judged if run.outcome == "error"),
        latency=_measure_latency(judged),
        cost=_sum_cost(runs),
        calibration=_measure_calibration(judged, sampled=facts.sampled),
        skipped=_count_reasons(run.reason for run in others if run.outcome == "skipped"),
        interrupted=_count_reasons(run.reason for run in others if run.outcome != "skipped"),
        unfinished=sum(run.outcome is None for run in runs),
    )


def _has_error(run: LabRun) -> bool:
    """Return whether the decision failed, or the run broke before there was a decision."""
    return run.decision_status == "error" or (run.decision_status is None and run.outcome == "error")


def _count_reasons(reasons: Iterable[str | None]) -> Mapping[str, int]:
    return dict(sorted(Counter(reason or "unknown" for reason in reasons).items()))


def _measure_stability(judged: Sequence[LabRun]) -> Stability:
    endings = [[run.ending for run in repetitions] for repetitions in group_by_case(judged).values()]
    repeated = [group for group in endings if len(group) > 1]
    return Stability(
        fraction=rates.stable_fraction(endings),
        same=sum(len(set(group)) == 1 for group in repeated),
        repeated=len(repeated),
        single=len(endings) - len(repeated),
    )


def _measure_latency(judged: Sequence[LabRun]) -> Latency:
    times = [run.wall_ms for run in judged if run.asked and run.wall_ms is not None]
    return Latency(n=len(times), p50_ms=rates.quantile7(times, 0.5), p95_ms=rates.quantile7(times, 0.95))


def _sum_cost(runs: Sequence[LabRun]) -> TargetCost:
    asked = [run for run in runs if run.asked]
    known = [run.cost_nusd for run in asked if run.cost_nusd is not None]
    return TargetCost(
        runs=len(asked),
        nusd=sum(known) if len(known) == len(asked) else None,
        unknown=len(asked) - len(known),
        local=bool(asked) and all(run.local for run in asked),
    )


def _measure_calibration(judged: Sequence[LabRun], *, sampled: bool) -> Calibration:
    confident = [run for run in judged if run.confidence is not None]
    conf = [run.confidence for run in confident]
    right = [run.outcome == "pass" for run in confident]
    return Calibration(
        n=len(confident),
        silent=len(judged) - len(confident),
        right=sum(right),
        brier=calibration.brier(conf, right),
        interval=_measure_brier_interval(confident) if sampled else None,
        skill=calibration.brier_skill(conf, right),
        ece=calibration.ece(conf, right) if len(confident) >= calibration.MIN_ECE_CONFIDENCES else None,
        bins=calibration.reliability_table(conf, right),
    )


def _measure_brier_interval(confident: Iterable[LabRun]) -> Interval | None:
    """Return the interval over cases, since repetitions of one case are not independent."""
    means = [
        math.fsum(((run.confidence or 0.0) - (run.outcome == "pass")) ** 2 for run in repetitions) / len(repetitions)
        for repetitions in group_by_case(confident).values()
    ]
    result = paired.paired_t(means)
    if result is None or len(means) < paired.MIN_CASES:
        return None
    return max(0.0, result.ci[0]), min(1.0, result.ci[1])


def _find_failing(case: str, target: str, runs: Sequence[LabRun]) -> Iterator[FailingCase]:
    judged = [run for run in runs if run.judged]
    failed = [run for run in judged if run.outcome != "pass"]
    if failed:
        yield FailingCase(
            case=case,
            target=target,
            failed=len(failed),
            judged=len(judged),
            broken=tuple(_group_broken(failed)),
            abstentions=_count_reasons(run.abstain for run in failed if run.abstain is not None),
            errors=_count_reasons(reason for run in failed if (reason := _describe_error(run)) is not None),
            position=min((run.position for run in failed if run.position is not None), default=None),
        )


def _group_broken(failed: Sequence[LabRun]) -> Iterator[BrokenAssertion]:
    by_assertion: dict[str, list[Verdict]] = {}
    for run in failed:
        for verdict in run.verdicts:
            if verdict.verdict != "pass":
                by_assertion.setdefault(verdict.verifier, []).append(verdict)
    for name, verdicts in sorted(by_assertion.items(), key=lambda item: _make_assertion_key(item[0])):
        first = verdicts[0].detail
        examples: dict[str, Example] = {}
        for verdict in verdicts:
            example = Example(reason=_format_value(verdict.detail.get("reason")), values=verdict.detail.get("values"))
            examples.setdefault(json.dumps([example.reason, example.values], sort_keys=True), example)
        yield BrokenAssertion(
            assertion=name,
            why=_format_value(first.get("why")),
            cel=_format_value(first.get("cel")),
            runs=len(verdicts),
            examples=tuple(examples.values())[:MAX_EXAMPLES],
            different=len(examples),
        )


def _make_assertion_key(assertion: str) -> tuple[int, str]:
    """Make the sort key of an assertion: `expect[2]` sorts before `expect[10]`."""
    digits = "".join(letter for letter in assertion if letter.isascii() and letter.isdigit())
    return (int(digits) if digits and len(digits) < 10 else -1, assertion)


def _describe_error(run: LabRun) -> str | None:
    """Return why the decision failed, such as `provider: 503 from ... (node judge)`; None if it did not."""
    if isinstance(run.error, Mapping):
        node = f" (node {run.error['node']})" if run.error.get("node") else ""
        return _format_cause(_format_value(run.error.get("cause")), _format_value(run.error.get("message"))) + node
    if run.outcome == "error":
        return _format_cause(run.reason or "unknown", run.message) if run.message else run.reason
    return None


def _format_cause(cause: str, message: str) -> str:
    """Put the cause before the message, unless the message begins with it: `timeout: no whole answer within 700 ms`."""
    return message if message.startswith((f"{cause}:", f"{cause} (")) else f"{cause}: {message}"


def _format_value(value: Json) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _find_unstable(case: str, target: str, runs: Sequence[LabRun]) -> Iterator[UnstableCase]:
    endings = Counter(run.ending for run in runs if run.judged)
    if len(endings) > 1:
        ordered = sorted(endings.items(), key=lambda item: (-item[1], item[0]))
        yield UnstableCase(case=case, target=target, endings=dict(ordered))


def _find_skipped(case: str, target: str, runs: Sequence[LabRun]) -> Iterator[SkippedRuns]:
    reasons = Counter((run.reason or "unknown", run.message or "") for run in runs if run.outcome == "skipped")
    for (reason, message), times in sorted(reasons.items()):
        yield SkippedRuns(case=case, target=target, reason=reason, message=message, runs=times)
