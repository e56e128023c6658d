"""From runs to a `LabReport`. Pure: the same runs, in whatever order they come, give the same report."""

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
"""Different examples of a broken assertion that are told; of the rest it is told how many there are."""

Order = Callable[[str], tuple[int, str]]


def build_report(facts: LabFacts, runs: Iterable[LabRun]) -> LabReport:
    """Everything that *runs*, the planned runs of a lab's sweep, come to."""
    every = sorted(runs, key=lambda run: (run.capability, run.case_name, run.target, run.repetition))
    declared = {target.id: place for place, target in enumerate(facts.targets)}
    order: Order = lambda target: (declared.get(target, -1), target)  # noqa: E731 - what no file declares comes first
    report = LabReport(
        facts=facts,
        capabilities=tuple(
            _report_capability(facts, name, list(group), order)
            for name, group in itertools.groupby(every, lambda run: run.capability)
        ),
        comparisons=compare_targets(facts, every),
        planned=len(every),
        judged=sum(run.judged for run in every),
        passes=sum(run.judged and run.outcome == "pass" for run in every),
        skipped=sum(run.outcome == "skipped" for run in every),
        again=sum(run.again or run.outcome is None for run in every),
        notes=(),
    )
    return attrs.evolve(report, notes=tuple(list_notes(report)))


def group_by_case(runs: Iterable[LabRun]) -> dict[str, list[LabRun]]:
    """Runs by fixture."""
    found: dict[str, list[LabRun]] = {}
    for run in runs:
        found.setdefault(run.case, []).append(run)
    return found


def _report_capability(facts: LabFacts, name: str, runs: Sequence[LabRun], order: Order) -> CapabilityReport:
    by_target: dict[str, list[LabRun]] = {}
    for run in runs:
        by_target.setdefault(run.target, []).append(run)
    mine = sorted(by_target.items(), key=lambda item: order(item[0]))
    # told by fixture, so that what several targets get wrong stands together
    cells = sorted(
        ((case, target, held) for target, own in mine for case, held in group_by_case(own).items()),
        key=lambda cell: (cell[0], order(cell[1])),
    )
    return CapabilityReport(
        name=name,
        cases=len({run.case_name for run in runs}),
        rows=tuple(_report_target(facts, target, own) for target, own in mine),
        failing=tuple(one for cell in cells for one in _find_failing(*cell)),
        unstable=tuple(one for cell in cells for one in _find_unstable(*cell)),
        skipped=tuple(one for cell in cells for one in _find_skipped(*cell)),
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
    """A run that broke before there was a decision has no status; it is no answer either."""
    return run.decision_status == "error" or (run.decision_status is None and run.outcome == "error")


def _count_reasons(reasons: Iterable[str | None]) -> Mapping[str, int]:
    return dict(sorted(Counter(reason or "unknown" for reason in reasons).items()))


def _measure_stability(judged: Sequence[LabRun]) -> Stability:
    endings = [[run.ending for run in held] for held in group_by_case(judged).values()]
    repeated = [one for one in endings if len(one) > 1]
    return Stability(
        fraction=rates.stable_fraction(endings),
        same=sum(len(set(one)) == 1 for one in repeated),
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
    spoken = [run for run in judged if run.confidence is not None]
    conf = [run.confidence for run in spoken]
    right = [run.outcome == "pass" for run in spoken]
    return Calibration(
        n=len(spoken),
        silent=len(judged) - len(spoken),
        right=sum(right),
        brier=calibration.brier(conf, right),
        interval=_measure_brier_interval(spoken) if sampled else None,
        skill=calibration.brier_skill(conf, right),
        ece=calibration.ece(conf, right) if len(spoken) >= calibration.MIN_ECE_CONFIDENCES else None,
        bins=calibration.reliability_table(conf, right),
    )


def _measure_brier_interval(spoken: Iterable[LabRun]) -> Interval | None:
    """Over fixtures, since repetitions of one are not independent."""
    means = [
        math.fsum(((run.confidence or 0.0) - (run.outcome == "pass")) ** 2 for run in held) / len(held)
        for held in group_by_case(spoken).values()
    ]
    found = paired.paired_t(means)
    if found is None or len(means) < paired.MIN_CASES:
        return None
    return max(0.0, found.ci[0]), min(1.0, found.ci[1])


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
            errors=_count_reasons(why for run in failed if (why := _describe_error(run)) is not None),
            position=min((run.position for run in failed if run.position is not None), default=None),
        )


def _group_broken(failed: Sequence[LabRun]) -> Iterator[BrokenAssertion]:
    said: dict[str, list[Verdict]] = {}
    for run in failed:
        for judgement in run.verdicts:
            if judgement.verdict != "pass":
                said.setdefault(judgement.verifier, []).append(judgement)
    for name, judgements in sorted(said.items(), key=lambda item: _make_assertion_key(item[0])):
        first = judgements[0].detail
        examples: dict[str, Example] = {}
        for judgement in judgements:
            example = Example(
                reason=_format_value(judgement.detail.get("reason")), values=judgement.detail.get("values")
            )
            examples.setdefault(json.dumps([example.reason, example.values], sort_keys=True), example)
        yield BrokenAssertion(
            assertion=name,
            why=_format_value(first.get("why")),
            cel=_format_value(first.get("cel")),
            runs=len(judgements),
            examples=tuple(examples.values())[:MAX_EXAMPLES],
            different=len(examples),
        )


def _make_assertion_key(assertion: str) -> tuple[int, str]:
    """`expect[2]` comes before `expect[10]`."""
    digits = "".join(letter for letter in assertion if letter.isascii() and letter.isdigit())
    return (int(digits) if digits and len(digits) < 10 else -1, assertion)


def _describe_error(run: LabRun) -> str | None:
    """Why the decision failed: `provider: 503 from ... (node judge)`."""
    if isinstance(run.error, Mapping):
        node = f" (node {run.error['node']})" if run.error.get("node") else ""
        return _format_cause(_format_value(run.error.get("cause")), _format_value(run.error.get("message"))) + node
    if run.outcome == "error":
        return _format_cause(run.reason or "unknown", run.message) if run.message else run.reason
    return None


def _format_cause(cause: str, message: str) -> str:
    """The cause before the message, unless that begins with the word: `timeout: no whole answer within 700 ms`."""
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
