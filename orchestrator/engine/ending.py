"""How an attempt at a run ends, whatever kind of run it is.

This is the one place where our errors become outcomes. A failed run is data; a bug is a crash.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

import anyio
import attrs

from orchestrator.engine.control.control import Control
from orchestrator.engine.control.waits import Bound, Stalled
from orchestrator.engine.gate.gate import ProviderBlocked, Tally
from orchestrator.workspaces.fixture import SetupFailed
from providers.errors import ProviderError
from providers.recording.divergence import Divergence, NotRecorded, ReplayDiverged
from store.errors import BudgetSpent, EvalctlError, StoreFailed
from store.events import Json
from store.rows import FileChange, Judgement, Outcome


@attrs.frozen(kw_only=True)
class Finding:
    """What an attempt came to, before it is written down."""

    outcome: Outcome
    reason: str | None = None
    message: str | None = None
    divergence: Divergence | None = None
    """Where a replay left its recording."""
    composite: float | None = None
    verdicts: tuple[Judgement, ...] = ()
    changes: tuple[FileChange, ...] = ()


async def concluded(
    attempted: Callable[[], Awaitable[Finding]], bound: Bound, control: Control, finish: Callable[[Finding], None]
) -> None:
    """Make one attempt and finish it, whatever happens: also when it waits too long or is cancelled.

    Raises:
        StoreFailed: the record can no longer be kept; then nothing is finished.
    """
    try:
        finding = await _bounded(attempted, bound)
    except StoreFailed:
        raise
    except anyio.get_cancelled_exc_class():
        finish(_given_up(control))
        raise
    except EvalctlError as error:
        finding = finding_of(error)
        if isinstance(error, BudgetSpent):
            control.drain("budget", str(error))
    finish(finding)


async def _bounded(attempted: Callable[[], Awaitable[Finding]], bound: Bound) -> Finding:
    with bound.scope:
        return await attempted()
    assert bound.error is not None
    raise bound.error


def _given_up(control: Control) -> Finding:
    """An attempt that was cancelled from outside."""
    if control.why == "deadline":
        return Finding(outcome="skipped", reason="budget", message=control.message)
    if control.why == "cancelled":
        return Finding(outcome="skipped", reason="cancelled", message=control.message)
    if control.why == "stalled":
        return Finding(outcome="error", reason="harness", message=control.message)
    return Finding(outcome="error", reason="interrupted", message="stopped while it ran")


def finding_of(error: EvalctlError) -> Finding:
    """What an error of ours means for the run it ended."""
    match error:
        case ReplayDiverged(divergence=where):
            return Finding(outcome="error", reason="replay_divergence", message=str(error), divergence=where)
        case NotRecorded():
            return Finding(outcome="skipped", reason="no_cassette", message=str(error))
        case BudgetSpent():
            return Finding(outcome="skipped", reason="budget", message=str(error))
        case Stalled(what="budget"):
            return Finding(outcome="skipped", reason="budget", message=str(error))
        case ProviderBlocked():
            return Finding(outcome="skipped", reason="provider_blocked", message=str(error))
        case ProviderError(kind="auth" | "permission"):
            reason = "auth"
        case ProviderError(kind="quota"):
            reason = "quota"
        case ProviderError() | Stalled():
            reason = "provider"
        case SetupFailed():
            reason = "setup"
        case _:
            reason = "harness"
    return Finding(outcome="error", reason=reason, message=str(error))


def detail_of(finding: Finding, tally: Tally, incidents: Counter[str]) -> dict[str, Json]:
    """What every ending tells beside its columns: the requests, what happened to them, and why it ended so."""
    detail: dict[str, Json] = {"spent": _spent(tally)}
    if incidents:
        detail["incidents"] = dict(sorted(incidents.items()))
    if finding.message is not None:
        detail["message"] = finding.message
    return detail


def _spent(tally: Tally) -> dict[str, Json]:
    """What every request of the attempt came to, retries included; money only where some cost is known."""
    found = {"calls": tally.calls, "tokens": tally.tokens, "unknownUsage": tally.unknown}
    if tally.sources:
        found |= {"nusd": tally.nusd, "unknownCost": tally.unpriced}
    return found


def source_of(tally: Tally) -> str | None:
    """Where the attempt's cost comes from; `bound` where a part of it is no more than that, `mixed` beside that."""
    if not tally.calls or tally.unpriced:
        return None
    if tally.sources["bound"]:
        return "bound"
    return "mixed" if len(tally.sources) > 1 else next(iter(tally.sources))
