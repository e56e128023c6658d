"""Result of an attempt at a run of any kind.

This is the one place where errors become outcomes. A failed run is data; a bug is a crash.
"""

from __future__ import annotations

import attrs

from orchestrator.engine.control.control import Control
from orchestrator.engine.control.waits import Stalled
from orchestrator.engine.gate.breaker import ProviderBlocked
from orchestrator.workspaces.fixture import SetupFailed
from providers.errors import ProviderError
from providers.recording.divergence import Divergence, NotRecorded, ReplayDiverged
from store.errors import CapExhausted, EvalctlError
from store.rows import FileChange, Outcome, Verdict


@attrs.frozen(kw_only=True)
class AttemptResult:
    """Outcome of an attempt before it is recorded."""

    outcome: Outcome
    reason: str | None = None
    message: str | None = None
    divergence: Divergence | None = None
    """Where a replay left its recording."""
    composite: float | None = None
    verdicts: tuple[Verdict, ...] = ()
    changes: tuple[FileChange, ...] = ()


def result_of_cancel(control: Control) -> AttemptResult:
    """The result of an attempt that was cancelled from outside."""
    if control.why == "deadline":
        return AttemptResult(outcome="skipped", reason="budget", message=control.message)
    if control.why == "cancelled":
        return AttemptResult(outcome="skipped", reason="cancelled", message=control.message)
    if control.why == "stalled":
        return AttemptResult(outcome="error", reason="harness", message=control.message)
    return AttemptResult(outcome="error", reason="interrupted", message="interrupted while running")


def result_of_error(error: EvalctlError) -> AttemptResult:
    """The result of an attempt that ended with *error*."""
    match error:
        case ReplayDiverged(divergence=divergence):
            return AttemptResult(outcome="error", reason="replay_divergence", message=str(error), divergence=divergence)
        case NotRecorded():
            return AttemptResult(outcome="skipped", reason="no_cassette", message=str(error))
        case CapExhausted():
            return AttemptResult(outcome="skipped", reason="budget", message=str(error))
        case Stalled(kind="budget"):
            return AttemptResult(outcome="skipped", reason="budget", message=str(error))
        case ProviderBlocked():
            return AttemptResult(outcome="skipped", reason="provider_blocked", message=str(error))
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
    return AttemptResult(outcome="error", reason=reason, message=str(error))
