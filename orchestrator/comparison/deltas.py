"""Differences of measured and estimated figures, and the conditions under which they are comparable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation

import attrs

from orchestrator.comparison.arm import Arm, Counts
from orchestrator.comparison.model import ESTIMATED, MEASURED, Delta, Metric
from store.stats import rates

SIDE_NAMES = ("baseline", "candidate")
TIME_METRICS: tuple[Metric, ...] = ("wallMsMedian", "wallMsPerSuccess")
"""Figures that stay comparable under different compaction settings, because they time the whole run."""


@attrs.frozen(kw_only=True)
class Conditions:
    """Reasons, valid for every task, why figures of two arms are not comparable; None where they are."""

    modes: str | None
    compaction: str | None
    prices: str | None


def conditions_between(baseline: Arm, candidate: Arm) -> Conditions:
    """Compare the conditions of both sides."""
    modes = (baseline.mode, candidate.mode)
    return Conditions(
        modes=None if modes[0] == modes[1] else f"the modes differ: {modes[0]}, {modes[1]}",
        compaction=_explain_compaction(baseline, candidate),
        prices=_explain_prices(baseline, candidate),
    )


def errors_between(baseline: Counts, candidate: Counts) -> str | None:
    """Return a text that counts errored runs by side; None without any."""
    counts = [
        f"{side.errored} on the {name}"
        for name, side in zip(SIDE_NAMES, (baseline, candidate), strict=True)
        if side.errored
    ]
    return f"errored runs: {', '.join(counts)}" if counts else None


def deltas_between(baseline: Counts, candidate: Counts, conditions: Conditions) -> Mapping[Metric, Delta]:
    """Compute every figure on both sides, with its difference or the reason why there is none."""
    errors = errors_between(baseline, candidate)
    deltas: dict[Metric, Delta] = {}
    for metric in (*MEASURED, *ESTIMATED):
        obstacle = conditions.modes or errors
        if metric not in TIME_METRICS:
            obstacle = obstacle or conditions.compaction
        if metric in ESTIMATED:
            obstacle = conditions.prices or obstacle
        values = FIGURES[metric](baseline), FIGURES[metric](candidate)
        before, after = values
        why = f"not comparable: {obstacle}" if obstacle else _explain_missing(metric, (baseline, candidate), values)
        delta = after - before if why is None and before is not None and after is not None else None
        deltas[metric] = Delta(baseline=before, candidate=after, delta=delta, why=why)
    return deltas


def _per_run(total: float | None, counts: Counts) -> float | None:
    return total / counts.judged if total is not None and counts.judged else None


def _per_success(total: float | None, counts: Counts) -> float | None:
    return None if total is None else rates.per_success(total, counts.passes)


def _total_tokens(counts: Counts) -> int | None:
    if counts.input_tokens is None or counts.output_tokens is None:
        return None
    return counts.input_tokens + counts.output_tokens


FIGURES: Mapping[Metric, Callable[[Counts], float | None]] = {
    "inputTokensPerRun": lambda counts: _per_run(counts.input_tokens, counts),
    "outputTokensPerRun": lambda counts: _per_run(counts.output_tokens, counts),
    "tokensPerRun": lambda counts: _per_run(_total_tokens(counts), counts),
    "tokensPerSuccess": lambda counts: _per_success(_total_tokens(counts), counts),
    "cachedInputRatio": lambda counts: counts.cached_ratio,
    "wallMsMedian": lambda counts: counts.wall_median_ms,
    "wallMsPerSuccess": lambda counts: _per_success(counts.wall_total_ms, counts),
    "costUsdPerRun": lambda counts: _per_run(counts.cost_usd, counts),
    "costUsdPerSuccess": lambda counts: _per_success(counts.cost_usd, counts),
}


def _explain_missing(
    metric: Metric, sides: tuple[Counts, Counts], values: tuple[float | None, float | None]
) -> str | None:
    """Return the reason why a value is missing, with its side; None if both are present."""
    for name, counts, value in zip(SIDE_NAMES, sides, values, strict=True):
        if value is not None:
            continue
        if not counts.judged:
            return f"nothing judged on the {name}"
        if metric.endswith("PerSuccess") and not counts.passes:
            return f"no success on the {name}"
        if metric == "wallMsMedian" or (metric == "cachedInputRatio" and counts.cached_runs):
            # a report has it per task and for all tasks, which does not give it for a subset
            return f"not known on the {name}"
        return f"not reported by the {name}" + ("" if metric == "cachedInputRatio" else " in every judged run")
    return None


def _explain_compaction(baseline: Arm, candidate: Arm) -> str | None:
    """Return why token figures are not comparable: they exclude compaction, so its settings must be equal."""
    if baseline.is_flow and candidate.is_flow:
        return None
    settings = [
        (arm.conditions.get("compaction"), arm.conditions.get("contextWindow")) for arm in (baseline, candidate)
    ]
    (before, window), (after, other) = settings
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        # The hash covers the settings, not the window.
        hashes = [arm.conditions.get("configHash") for arm in (baseline, candidate)]
        if hashes[0] is None or hashes[0] != hashes[1]:
            return "the compaction settings are not known to be the same"
        before = after = {}
    different = [
        f"{key} {before.get(key)}, {after.get(key)}"
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]
    if window != other:
        different.append(f"contextWindow {window}, {other}")
    return f"the compaction settings differ: {'; '.join(different)}" if different else None


def _explain_prices(baseline: Arm, candidate: Arm) -> str | None:
    rates_by_side = []
    for name, arm in zip(SIDE_NAMES, (baseline, candidate), strict=True):
        given = [arm.conditions.get(key) for key in ("inputRate", "outputRate")]
        if None in given:
            return f"no rates were given for the {name}"
        try:
            rates_by_side.append([Decimal(str(rate)) for rate in given])
        except InvalidOperation:
            return f"the rates of the {name} are not numbers"
    before, after = rates_by_side
    if before == after:
        return None
    texts = [" and ".join(str(rate) for rate in rates_) for rates_ in rates_by_side]
    return f"the rates differ: {texts[0]}; {texts[1]} USD per million tokens in and out"
