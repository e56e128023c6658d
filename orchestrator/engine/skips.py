"""Skipped runs: runs that will not start get a result that says why."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from orchestrator.engine.ports import Claims, Ledger
from orchestrator.engine.resumption import RESUMED_REASONS
from store.measurements import Measurements
from store.rows import Claim, Ending

BATCH = 500


async def skip_rest(
    claims: Claims,
    ledger: Ledger,
    unstarted: Sequence[Claim],
    *,
    reason: str,
    message: str,
    wall: Callable[[], int],
) -> int:
    """Record the outcome `skipped(reason)` for the *unstarted* claims and all runs that are free; return their number.

    Runs that another live process holds are left to it. *wall* gives microseconds UTC.

    Raises:
        StoreFailed: the record can no longer be kept.
    """
    count = 0
    batch: Sequence[Claim] = unstarted or await claims.claim_runs(BATCH)
    while batch:
        for claim in batch:
            ledger.finish_attempt(build_skip(claim, reason, message, wall()))
        count += len(batch)
        await ledger.wait_for_backlog()
        batch = await claims.claim_runs(BATCH)
    return count


def build_skip(claim: Claim, reason: str, message: str, at: int) -> Ending:
    """Build the ending of a run that was claimed and never started."""
    return Ending(
        claim=claim,
        outcome="skipped",
        reason=reason,
        judged=False,
        again=reason in RESUMED_REASONS,
        ended_at=at,
        measured=Measurements(calls=0),
        detail={"message": message},
    )
